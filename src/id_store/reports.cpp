#include "id_store/reports.hpp"

#include "idproxy/ids/number_format.hpp"
#include "idproxy/ids/number_ranges.hpp"
#include "idproxy/threads/threads.hpp"

namespace idproxy::id_store {

ids::Error no_thread() {
  return {ids::Errc::unavailable, threads::kRefused};
}

ids::Error not_looked_at(std::string what) {
  return {.code = ids::Errc::unavailable,
          .reason = std::move(what) + " not been looked at yet",
          .is_transient = true};
}

void InUse::count(std::int64_t start, std::int64_t step, std::int64_t max) {
  const ids::Steps steps(step);
  numbers.all = steps.count(start, max);
  if (!numbers.next || step < 0) return;
  for (const ids::CounterField& field : fields) {
    const std::uint32_t pad = field.format.pad;
    if (field.format.output != ids::NumberFormat::Output::string || pad == 0 || pad > 18) continue;
    const std::int64_t last = ids::largest_number(pad, field.format.alphabet.size());
    if (last >= max) continue;
    const ids::CounterNumbers::Width width{steps.count(*numbers.next, last),
                                           steps.count(start, last)};
    if (!numbers.width || width.left < numbers.width->left) numbers.width = width;
  }
}

}  // namespace idproxy::id_store
