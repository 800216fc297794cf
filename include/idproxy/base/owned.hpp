#pragma once

#include <memory>

namespace idproxy {

template <auto kDestroy>
struct Destroyer {
  void operator()(auto* object) const { kDestroy(object); }
};

/// Owns an object of a C library.
template <class T, auto kDestroy>
using Owned = std::unique_ptr<T, Destroyer<kDestroy>>;

}  // namespace idproxy
