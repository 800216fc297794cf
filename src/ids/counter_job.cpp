#include "idproxy/ids/counter_job.hpp"

namespace idproxy::ids {

std::string handed_out_up_to(std::int64_t max) {
  return "all numbers up to max, " + std::to_string(max) + ", have been handed out";
}

}  // namespace idproxy::ids
