"""Programs over meshes of devices: dividing them among the devices, and the primitives that speak of meshes."""
