"""The world: verbs a person types, readers and writers of foreign formats, the store."""
