// The Python face of sessions (session_bindings.cpp), for bindings.cpp to put into the module.
#pragma once

#include <nanobind/nanobind.h>

namespace tokseam::python {

// Adds OverlapMismatch, Session, and what of their kind stands beside them.
void bind_sessions(nanobind::module_& m);

}  // namespace tokseam::python
