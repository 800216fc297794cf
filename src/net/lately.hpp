#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

/// How busy clients have been in the last ten seconds. Times are monotonic.
namespace idproxy::net {

struct Rates {
  double requests = 0;   ///< a second
  double documents = 0;  ///< the same
};

/// Requests and documents of about the last ten seconds, in a few bytes, since each connection has
/// one: the counts of two windows, of which the older one loses weight as the newer one fills.
class Lately {
 public:
  using Time = std::chrono::nanoseconds;

  void add(std::uint64_t requests, std::uint64_t documents, Time now) {
    turn_to(now);
    newer_.requests += static_cast<std::uint32_t>(requests);
    newer_.documents += static_cast<std::uint32_t>(documents);
  }
  /// What another one has counted.
  void add(Lately other, Time now) {
    other.turn_to(now);
    turn_to(now);
    newer_ += other.newer_;
    older_ += other.older_;
  }

  [[nodiscard]] Rates rates(Time now) const {
    using Seconds = std::chrono::duration<double>;
    Lately then = *this;
    then.turn_to(now);
    const double part = 1 - Seconds(now % kWindow) / Seconds(kWindow);
    const auto a_second = [part](std::uint32_t newer, std::uint32_t older) {
      return (newer + part * older) / Seconds(kWindow).count();
    };
    return {a_second(then.newer_.requests, then.older_.requests),
            a_second(then.newer_.documents, then.older_.documents)};
  }

 private:
  static constexpr std::chrono::seconds kWindow{10};

  struct Counts {
    std::uint32_t requests = 0;
    std::uint32_t documents = 0;
    void operator+=(const Counts& other) {
      requests += other.requests;
      documents += other.documents;
    }
  };

  void turn_to(Time now) {
    const auto window = static_cast<std::uint32_t>(now / kWindow);
    if (window == window_) return;
    older_ = window - window_ == 1 ? newer_ : Counts{};
    newer_ = {};
    window_ = window;
  }

  std::uint32_t window_ = 0;
  Counts newer_;
  Counts older_;
};

/// What clients have sent lately whose connections are closed, by application: some open one for
/// each request. Clients choose the names, so no hash table, and some 100 names are kept.
class EndedClients {
 public:
  /// Never throws: a connection that ends for lack of memory is not counted.
  void add(std::string_view application, const Lately& sent, Lately::Time now) noexcept;

  [[nodiscard]] const std::map<std::string, Lately, std::less<>>& by_application() const {
    return by_application_;
  }
  /// Of further applications.
  [[nodiscard]] const Lately& others() const { return others_; }

 private:
  [[nodiscard]] Lately& place_of(std::string_view application, Lately::Time now);

  std::map<std::string, Lately, std::less<>> by_application_;
  Lately others_;
};

}  // namespace idproxy::net
