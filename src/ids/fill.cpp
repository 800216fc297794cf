#include "idproxy/ids/fill.hpp"

#include <algorithm>
#include <cmath>

namespace idproxy::ids {
namespace {

constexpr std::uint64_t kStep = 1000;
constexpr std::uint64_t kEnough = 1000;  // fewer draws say nothing about the ratio
constexpr double kFewestAttempts = 8;
constexpr double kMostAttempts = 100;
constexpr double kUnlucky = 1e-9;
// With fewer duplicates, sending them again costs less than a look-up, whatever the fill.
constexpr double kFewDuplicates = 4;
constexpr double kLooksFrom = 0.1;
// In a larger space, a handful of duplicates does not show that it fills up, and it is not assumed
// to be full before its documents have been counted.
constexpr double kLargeSpace = 1e8;
// An estimate that is further off than this is given up for a newer one.
constexpr double kFarOff = 0.05;

/// At most 1: duplicates of draws that have left the window are still counted in it.
double share(std::uint64_t part, std::uint64_t all) {
  return all == 0 ? 0 : std::min(1.0, static_cast<double>(part) / static_cast<double>(all));
}

/// Returns a lower bound for the true share of duplicates: three standard deviations below this
/// sample's.
double at_least(double share, std::uint64_t draws) {
  if (draws == 0) return 0;
  const double deviation = std::sqrt(share * (1 - share) / static_cast<double>(draws));
  return std::max(0.0, share - 3 * deviation);
}

}  // namespace

void Fill::Window::draw(std::uint64_t numbers) {
  if (steps_[newest_].drawn >= kStep) {
    newest_ = (newest_ + 1) % steps_.size();
    steps_[newest_] = {};
  }
  steps_[newest_].drawn += numbers;
}

Fill::Window::Step Fill::Window::sum() const {
  Step sum;
  for (const Step& step : steps_) {
    sum.drawn += step.drawn;
    sum.collided += step.collided;
  }
  return sum;
}

void Fill::Window::add(std::uint64_t numbers, std::uint64_t taken) {
  const double ratio = share(taken, numbers);
  for (; numbers > 0; numbers -= std::min(numbers, kStep)) {
    const std::uint64_t part = std::min(numbers, kStep);
    draw(part);
    const auto collided =
        static_cast<std::uint64_t>(std::llround(ratio * static_cast<double>(part)));
    collide(std::min(taken, collided));
    taken -= std::min(taken, collided);
  }
}

double Fill::Window::ratio() const {
  const Step all = sum();
  return all.drawn < kEnough ? 0 : share(all.collided, all.drawn);
}

bool Fill::is_full_now() const {
  if (!limits_) return false;
  const double counted = static_cast<double>(documents_.value_or(0)) / limits_->space;
  const double sampled = at_least(window_.ratio(), window_.sum().drawn);
  return std::max(counted, sampled) > limits_->max_fill;
}

bool Fill::is_known() const {
  const std::scoped_lock lock(mutex_);
  return suspected_ == 0 && (documents_ || window_.sum().drawn >= kEnough);
}

bool Fill::draw(std::uint64_t numbers) {
  const std::scoped_lock lock(mutex_);
  if (is_full_now()) return false;
  window_.draw(numbers);
  drawn_ += numbers;
  drawn_since_ = true;
  return true;
}

bool Fill::choose(std::uint64_t numbers) {
  const std::scoped_lock lock(mutex_);
  if (is_full_now()) return false;
  drawn_ += numbers;
  drawn_since_ = true;
  return true;
}

double Fill::expected_now() const {
  const double space = limits_ ? limits_->space : kLargeSpace;
  if (space >= kLargeSpace) return fraction(space);
  const auto [drawn, collided] = window_.sum();
  return std::max({fraction(space), share(collided, drawn), suspected_});
}

bool Fill::expects_duplicates(std::uint64_t numbers) const {
  const std::scoped_lock lock(mutex_);
  if (!documents_ && window_.sum().drawn == 0) {
    return numbers > 1 && limits_ && limits_->space < kLargeSpace;
  }
  const double expected = expected_now();
  return expected > kLooksFrom || expected * static_cast<double>(numbers) > kFewDuplicates;
}

bool Fill::suspect(double share, std::uint64_t others) {
  if (share * static_cast<double>(others) <= kFewDuplicates) return false;
  const std::scoped_lock lock(mutex_);
  suspected_ = std::max(suspected_, share);
  return true;
}

void Fill::collided(std::uint64_t numbers) {
  const std::scoped_lock lock(mutex_);
  window_.collide(numbers);
  drawn_ -= std::min(drawn_, numbers);
}

std::uint32_t Fill::attempts() const {
  const Seen now = seen();
  if (now.fraction <= 0) return static_cast<std::uint32_t>(kFewestAttempts);
  if (now.fraction >= 1) return static_cast<std::uint32_t>(kMostAttempts);
  // A rounding error must not add an attempt to a whole number of attempts.
  const double needed = std::ceil(std::log(kUnlucky) / std::log(now.fraction) - 1e-6);
  return static_cast<std::uint32_t>(std::clamp(needed, kFewestAttempts, kMostAttempts));
}

void Fill::counted(std::uint64_t documents) {
  const std::scoped_lock lock(mutex_);
  documents_ = documents;
  drawn_ = 0;
}

void Fill::looked_up(std::uint64_t numbers, std::uint64_t taken) {
  const std::scoped_lock lock(mutex_);
  suspected_ = 0;
  const double now = share(taken, numbers);
  const double space = limits_ ? limits_->space : kLargeSpace;
  const bool is_whole = static_cast<double>(numbers) >= space;
  if (!is_whole && numbers < kEnough) return;
  if (is_whole || std::abs(fraction(space) - now) > kFarOff) {
    window_ = {};
    const double documents = space * (is_whole ? now : at_least(now, numbers));
    if (is_whole || static_cast<double>(documents_.value_or(0)) > documents) {
      documents_ = static_cast<std::uint64_t>(std::llround(documents));
      drawn_ = 0;
    }
  }
  window_.add(numbers, taken);
}

void Fill::age() {
  const std::scoped_lock lock(mutex_);
  if (!drawn_since_) window_ = {};
  drawn_since_ = false;
}

Fill::Seen Fill::seen() const {
  const std::scoped_lock lock(mutex_);
  return {limits_, documents_, limits_ ? fraction(limits_->space) : window_.ratio(), drawn_,
          is_full_now()};
}

double Fill::fraction(double space) const {
  return std::max(static_cast<double>(documents_.value_or(0)) / space, window_.ratio());
}

}  // namespace idproxy::ids
