import pytest

from features.tables import Series
from pipelines.config import IngestSettings
from pipelines.identity import Identifier, gpu, host, pci

SETTINGS = IngestSettings()


def identify(**labels: str) -> tuple[str, Series, str]:
    found = Identifier(SETTINGS).identify({"__name__": "m", **labels})
    return found.node, found.series, found.pci


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("00000000:4E:00.0", "0000:4e:00"),
        ("0000:4e:00", "0000:4e:00"),
        ("4e:00.0", "0000:4e:00"),
        ("00000008:06:00.0", "0008:06:00"),
        ("0019:01:00", "0019:01:00"),
        ("00010000:01:00.0", "10000:01:00"),
        ("PCI:0000:4e:00", "0000:4e:00"),
        ("zz", ""),
        ("", ""),
    ],
)
def test_a_pci_address_has_one_form(written: str, canonical: str) -> None:
    assert pci(written) == canonical


def test_equal_buses_of_two_domains_stay_two_gpus() -> None:
    assert pci("0008:06:00") != pci("0000:06:00")


@pytest.mark.parametrize(
    ("labels", "node"),
    [
        ({"Hostname": "localhost", "instance": "10.0.0.7:9400", "node": "n7"}, "n7"),
        ({"Hostname": "localhost", "instance": "10.0.0.8:9400", "node": "n8"}, "n8"),
        ({"Hostname": "dcgm-exporter-x1y2z", "instance": "10.0.0.9:9400", "exported_instance": "n9"}, "n9"),
        ({"instance": "n7.example.net:9100"}, "n7"),
        ({"instance": "http://n7:9100/metrics"}, "n7"),
    ],
)
def test_the_node_is_the_best_name_among_the_labels(labels: dict[str, str], node: str) -> None:
    assert identify(**labels)[0] == node


def test_without_a_name_the_scraped_address_is_the_node_and_known_to_be_a_makeshift() -> None:
    found = Identifier(SETTINGS).identify({"__name__": "m", "Hostname": "localhost", "instance": "10.0.0.7:9400"})
    assert (found.node, found.settled) == ("10.0.0.7", False)


@pytest.mark.parametrize("name", ["localhost", "localhost.localdomain", "127.0.0.1", "[::1]"])
def test_what_every_node_calls_itself_is_no_node(name: str) -> None:
    assert Identifier(SETTINGS).identify({"__name__": "m", "Hostname": name, "instance": f"{name}:9400"}).node == ""


def test_a_name_given_by_the_user_is_better_than_an_address() -> None:
    assert Identifier(SETTINGS, "n7").identify({"__name__": "m", "instance": "10.0.0.7:9400"}).node == "n7"


def test_a_pod_named_in_another_label_is_no_node() -> None:
    assert identify(Hostname="train-0", pod="train-0", instance="n3:9400")[0] == "n3"


def test_an_alias_gives_an_address_its_name() -> None:
    settings = IngestSettings(aliases={"10.0.0.7": "n7"})
    found = Identifier(settings).identify({"__name__": "m", "instance": "10.0.0.7:9400"})
    assert (found.node, found.settled) == ("n7", True)


def test_log_hosts_and_metric_hosts_get_one_name() -> None:
    assert host("n7.example.net", SETTINGS) == host("n7:9100", SETTINGS) == "n7"


def test_an_address_is_not_cut_at_its_dots() -> None:
    assert host("172.31.0.122", SETTINGS) == "172.31.0.122"


def test_workload_labels_do_not_split_a_gpu() -> None:
    first = identify(node="n1", UUID="GPU-a", pod="", namespace="")
    assert first == identify(node="n1", UUID="GPU-a", exported_pod="job-2", pod="exporter-x")


def test_a_renumbered_index_does_not_change_the_gpu() -> None:
    assert identify(node="n1", UUID="GPU-b", gpu="1", device="nvidia1") == identify(
        node="n1", UUID="GPU-b", gpu="0", device="nvidia0"
    )


def test_a_mig_instance_is_its_own_series_on_the_parent_gpu() -> None:
    assert identify(node="n1", UUID="GPU-a", GPU_I_ID="3", GPU_I_PROFILE="1g.10gb")[1] == Series(
        'm{GPU_I_ID="3"}', "GPU-a"
    )


def test_a_network_device_stays_in_the_series_of_a_node() -> None:
    assert identify(node="n1", device="eth0", cpu="1")[1] == Series('m{cpu="1",device="eth0"}')


def test_the_uuid_of_a_file_system_is_no_gpu() -> None:
    found = Identifier(SETTINGS).identify({"__name__": "node_btrfs_size_bytes", "node": "n1", "uuid": "deaddd54"})
    assert found.series == Series('node_btrfs_size_bytes{uuid="deaddd54"}')


def test_a_numa_node_is_no_node_and_stays_in_the_series() -> None:
    found = Identifier(SETTINGS).identify({"__name__": "node_memory_numa_Active", "node": "0", "instance": "n1:9100"})
    assert (found.node, found.series) == ("n1", Series('node_memory_numa_Active{node="0"}'))


def test_a_number_is_the_node_when_nothing_else_is() -> None:
    assert identify(node="07")[:2] == ("07", Series("m"))


def test_up_keeps_the_job_that_was_scraped() -> None:
    found = Identifier(SETTINGS).identify({"__name__": "up", "job": "dcgm", "instance": "n1:9400"})
    assert found.series == Series('up{job="dcgm"}')


@pytest.mark.parametrize(
    ("written", "uuid"),
    [
        ("GPU-a", "GPU-a"),
        ("<<<NULL>>>", ""),
        ("df6e7a7c-7314-46f8-abc4-b88b36dcf3aa", "GPU-df6e7a7c-7314-46f8-abc4-b88b36dcf3aa"),
    ],
)
def test_a_uuid_has_one_form(written: str, uuid: str) -> None:
    assert gpu(written) == uuid


def test_label_values_are_quoted_so_that_they_can_be_read_back() -> None:
    assert identify(node="n1", path='a"b\\c\nd')[1].metric == 'm{path="a\\"b\\\\c\\nd"}'
