#include "idproxy/ids/values.hpp"

#include <algorithm>

namespace idproxy::ids {

void Values::add_string(std::string_view text) {
  std::copy_n(as_bytes(text).begin(), text.size(), add_string(text.size()));
}

/// For values of different sizes.
void Values::note_ends() {
  ends_.reserve(size_ + 1);
  for (std::size_t end = each_; ends_.size() < size_; end += each_) ends_.push_back(end);
}

}  // namespace idproxy::ids
