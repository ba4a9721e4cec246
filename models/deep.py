"""A generative model of each node's own series, as TadGAN, for the extra ``deep``; the only file that imports torch.

TadGAN (Geiger et al. 2020, arXiv 2009.07769) learns to encode quiet stretches of a series and to make them again, while
two critics learn to tell real stretches from made ones and real codes from random ones (Wasserstein distance with a
penalty on the critics' gradients). A stretch that can't be made again, or that the critic holds for no real one, is an
anomaly. Here the networks are of two dense layers over a few windows of all columns, which two cores can train; torch
is needed to fit, and numpy is enough to score.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from features.tables import UsageError
from models.scorers import Floats, Place, Reason, Scorer, place, quiet_rows, squash, strongest
from models.tails import Tails

Singles = NDArray[np.float32]
Layers = list[NDArray[np.float32]]  # weights [in, out] and biases [out], in turn

# The row and those before it. With persistence of two windows more a live job has them all (`lineup.LOOK_BACK`).
LENGTH = 6
_SLOPE = 0.2  # of a leaky rectifier below zero, in both networks of the paper
_PENALTY, _RECONSTRUCTION = 10.0, 10.0  # weights of the gradients' penalty and of the reconstruction, the paper's own
_BATCH = 128
_RATE = 1e-3
_AT_ONCE = 8192  # rows whose stretches are held at a time


class TadGan(Scorer):
    """See the module.

    Parameters
    ----------
    code, width
        Numbers a stretch is encoded by, and of a network's inner layer.
    rounds, critic_steps
        Times all quiet stretches are shown, and steps of the critics for one of the others.
    most
        Quiet stretches that are learned from, evenly drawn.
    critic_share
        How much of a score is the critic's; the rest is what could not be made again.
    seed
        Of the first weights and of all draws.
    """

    def __init__(
        self,
        *,
        code: int = 16,
        width: int = 64,
        rounds: int = 15,
        critic_steps: int = 2,
        most: int = 10_000,
        critic_share: float = 0.3,
        seed: int = 0,
    ) -> None:
        self.code = code
        self.width = width
        self.rounds = rounds
        self.critic_steps = critic_steps
        self.most = most
        self.critic_share = critic_share
        self.seed = seed

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn from the quiet rows, or from all without labels; missing values are the mean.

        Raises
        ------
        UsageError
            The extra is not installed.
        """
        values = self.checked(X, fitting=True, rows=2, weight=sample_weight)
        quiet = quiet_rows(y, len(values))
        known = values[quiet].astype(np.float64)
        count = np.maximum(np.count_nonzero(~np.isnan(known), axis=0), 1)
        self.mean_ = np.nansum(known, axis=0) / count
        spread = np.sqrt(np.square(np.nan_to_num(known - self.mean_)).sum(axis=0) / count)
        self.scale_ = np.where(spread > 1e-9 * (1 + np.abs(self.mean_)), spread, 1.0)
        scaled, before = self._scaled(values), _before(place(X))
        rows = np.flatnonzero(quiet)
        rows = rows[:: max(1, -(-len(rows) // self.most))]
        self.encoder_, self.maker_, self.critic_ = _learn(_stretches(scaled, before, rows), self)
        left, odd = self._told(scaled, before, rows)
        self.middle_ = float(np.median(odd))
        statistic = np.column_stack([left.mean(axis=1), np.abs(odd - self.middle_)])
        self.tails_ = Tails.fit(statistic, overlap=4.0)
        return self

    def _scaled(self, values: NDArray[Any]) -> Singles:
        away = np.nan_to_num((values.astype(np.float64) - self.mean_) / self.scale_)
        # Compressed: one column gone wild should not hide the rest
        return np.asarray(np.sign(away) * np.log1p(np.abs(away)), dtype=np.float32)

    def _told(self, scaled: Singles, before: NDArray[np.int64], rows: NDArray[np.int64]) -> tuple[Floats, Floats]:
        """Squared residual of each row's own columns [n, C], and the critic's word of its stretch [n]."""
        width = scaled.shape[1]
        left, odd = np.empty((len(rows), width)), np.empty(len(rows))
        for low in range(0, len(rows), _AT_ONCE):
            some = slice(low, low + _AT_ONCE)
            seen = _stretches(scaled, before, rows[some])
            made = _through(_through(seen, self.encoder_), self.maker_)
            left[some] = np.square(seen[:, -width:] - made[:, -width:])
            odd[some] = _through(seen, self.critic_)[:, 0]
        return left, odd

    def score(self, X: Any, y: Any = None) -> Floats:  # noqa: ARG002  # scikit-learn's signature
        """Surprise of the residual and of the critic's word, squashed."""
        values = self.checked(X)
        left, odd = self._told(self._scaled(values), _before(place(X)), np.arange(len(values)))
        surprise = self.tails_.surprise(np.column_stack([left.mean(axis=1), np.abs(odd - self.middle_)]))
        return squash(surprise @ np.array([1 - self.critic_share, self.critic_share]))

    def explain(self, X: Any, most: int = 5) -> list[list[Reason]]:
        """Columns by their squared residual."""
        values = self.checked(X)
        left, _ = self._told(self._scaled(values), _before(place(X)), np.arange(len(values)))
        return strongest(left / max(left.shape[1], 1), self.columns(), most)

    def thaw(self, name: str, value: Any) -> Any:
        """The tails are a part of their own."""
        return Tails.from_state(value) if name == "tails_" else super().thaw(name, value)


def _before(where: Place) -> NDArray[np.int64]:
    """For each row the row before it on its node, itself where there is none."""
    order = where.order
    out = np.arange(len(order), dtype=np.int64)
    same = where.node[order][1:] == where.node[order][:-1]
    out[order[1:][same]] = order[:-1][same]
    return out


def _stretches(scaled: Singles, before: NDArray[np.int64], rows: NDArray[np.int64]) -> Singles:
    """The last `LENGTH` rows of each node up to these, one behind the other, the newest last: [n, LENGTH * C]."""
    parts = [rows]
    for _ in range(LENGTH - 1):
        parts.append(before[parts[-1]])
    return np.concatenate([scaled[part] for part in parts[::-1]], axis=1)


def _through(values: NDArray[Any], layers: Layers) -> Floats:
    """What a network of two layers makes of its input.

    In double precision: how a product is summed depends on how many rows there are, and history is told by the day,
    a live window by itself.
    """
    inner = values.astype(np.float64) @ layers[0] + layers[1]
    return np.asarray(np.where(inner > 0, inner, _SLOPE * inner) @ layers[2] + layers[3], dtype=np.float64)


def require() -> None:
    """Refuse early what could not be fitted later.

    Raises
    ------
    UsageError
        The extra is not installed.
    """
    _torch()


def _torch() -> Any:
    try:
        import torch  # noqa: PLC0415  # an extra, and seconds of import
    except ImportError as error:
        raise UsageError(f"the model tadgan needs torch ({error}); pip install 'foreshock[deep]'") from error
    return torch


def _learn(seen: Singles, settings: TadGan) -> tuple[Layers, Layers, Layers]:
    """Encoder, maker and the critic of stretches, trained on quiet ones."""
    torch = _torch()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # two that wait for each other on a busy machine are far slower
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(settings.seed)
            return _train(torch, torch.from_numpy(np.ascontiguousarray(seen)), settings)
    finally:
        torch.set_num_threads(threads)


def _train(torch: Any, seen: Any, settings: TadGan) -> tuple[Layers, Layers, Layers]:
    def network(inputs: int, outputs: int) -> Any:
        first, last = torch.nn.Linear(inputs, settings.width), torch.nn.Linear(settings.width, outputs)
        return torch.nn.Sequential(first, torch.nn.LeakyReLU(_SLOPE), last)

    size = seen.shape[1]
    encoder, maker = network(size, settings.code), network(settings.code, size)
    real, coded = network(size, 1), network(settings.code, 1)
    both = torch.optim.Adam([*encoder.parameters(), *maker.parameters()], lr=_RATE)
    critics = torch.optim.Adam([*real.parameters(), *coded.parameters()], lr=_RATE)
    for turn in range(settings.rounds):
        deck = torch.randperm(len(seen))
        for number, low in enumerate(range(0, len(seen), _BATCH)):
            batch = seen[deck[low : low + _BATCH]]
            noise = torch.randn(len(batch), settings.code)
            with torch.no_grad():
                made, code = maker(noise), encoder(batch)
            loss = _distance(torch, real, batch, made) + _distance(torch, coded, noise, code)
            critics.zero_grad()
            loss.backward()
            critics.step()
            if (turn + number) % settings.critic_steps:
                continue
            code = encoder(batch)
            fooled = -real(maker(noise)).mean() - coded(code).mean()
            loss = fooled + _RECONSTRUCTION * torch.nn.functional.mse_loss(maker(code), batch)
            both.zero_grad()
            loss.backward()
            both.step()
    return _layers(encoder), _layers(maker), _layers(real)


def _distance(torch: Any, critic: Any, real: Any, made: Any) -> Any:
    """What a critic is to lessen: minus the Wasserstein distance, and the penalty (Gulrajani et al. 2017)."""
    share = torch.rand(len(real), 1)
    between = (share * real + (1 - share) * made).requires_grad_(True)  # noqa: FBT003  # torch's signature
    (slope,) = torch.autograd.grad(critic(between).sum(), between, create_graph=True)
    penalty = (slope.norm(dim=1) - 1).square().mean()
    return critic(made).mean() - critic(real).mean() + _PENALTY * penalty


def _layers(network: Any) -> Layers:
    out: Layers = []
    for layer in (network[0], network[2]):
        out += [np.ascontiguousarray(layer.weight.detach().numpy().T), layer.bias.detach().numpy().copy()]
    return out
