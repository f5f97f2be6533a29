// The Python face of a device's batches (device_bindings.cpp), for bindings.cpp to put into the module.
#pragma once

#include <nanobind/nanobind.h>

namespace tokseam::python {

// Adds DeviceBatch.
void bind_device(nanobind::module_& m);

}  // namespace tokseam::python
