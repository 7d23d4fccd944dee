"""Programs over meshes of devices: their partitioning, and the primitives that have meshes among their parameters."""
