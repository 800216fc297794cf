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

}  // namespace

void Fill::Window::draw(std::uint64_t numbers) {
  if (steps_[newest_].drawn >= kStep) {
    newest_ = (newest_ + 1) % steps_.size();
    steps_[newest_] = {};
  }
  steps_[newest_].drawn += numbers;
}

double Fill::Window::ratio() const {
  Step sum;
  for (const Step& step : steps_) {
    sum.drawn += step.drawn;
    sum.collided += step.collided;
  }
  if (sum.drawn < kEnough) return 0;
  // At most 1: duplicates of draws that have left the window are still counted in it.
  return std::min(1.0, static_cast<double>(sum.collided) / static_cast<double>(sum.drawn));
}

void Fill::limit(const Limits& limits) {
  const std::scoped_lock lock(mutex_);
  limits_ = limits;
}

bool Fill::draw(std::uint64_t numbers) {
  const std::scoped_lock lock(mutex_);
  if (limits_ && fraction(limits_->space) > limits_->max_fill) return false;
  window_.draw(numbers);
  drawn_ += numbers;
  drawn_since_ = true;
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

void Fill::age() {
  const std::scoped_lock lock(mutex_);
  if (!drawn_since_) window_ = {};
  drawn_since_ = false;
}

Fill::Seen Fill::seen() const {
  const std::scoped_lock lock(mutex_);
  return {limits_, documents_, limits_ ? fraction(limits_->space) : window_.ratio(), drawn_};
}

double Fill::of(double space) const {
  const std::scoped_lock lock(mutex_);
  return fraction(space);
}

double Fill::fraction(double space) const {
  return std::max(static_cast<double>(documents_.value_or(0)) / space, window_.ratio());
}

}  // namespace idproxy::ids
