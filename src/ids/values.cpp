#include "idproxy/ids/values.hpp"

#include <algorithm>

namespace idproxy::ids {

void Values::add_string(std::string_view text) {
  std::copy_n(as_bytes(text).begin(), text.size(), add_string(text.size()));
}

/// For values of different sizes.
void Values::note_ends() {
  note_more_ends(size_, each_);
}

void Values::note_more_ends(std::size_t n, std::size_t size) {
  std::size_t end = ends_.empty() ? 0 : ends_.back();
  for (; n > 0; --n) ends_.push_back(end += size);
}

}  // namespace idproxy::ids
