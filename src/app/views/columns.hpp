#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "app/json_view.hpp"
#include "app/views/terminal.hpp"

/// The figures of the tables in the state of a proxy, for the page, the terminal and
/// docs/status.md.
namespace idproxy::app::views {

/// How much of a list the terminal shows: the most telling columns and the first rows, or all.
enum class Detail { brief, full };

/// One row of a table, from the document of /status.json, and when it was true.
struct Entry {
  JsonView of;
  std::optional<double> now;

  /// How long ago the time in a member was.
  [[nodiscard]] std::optional<double> since(std::string_view key) const;
};

/// How a figure is written.
struct Unit {
  enum class Kind { name, text, number, date };
  using Written = std::string (*)(const Entry& entry, const char* key);
  Kind kind;
  Written page;
  Written terminal;
};

/// What a figure looks like.
struct Style {
  Tone (*tone)(const Entry& entry) = nullptr;
  std::array<std::pair<Tone, std::string_view>, 3> legend{};  ///< what its tones mean
  std::string (*link)(const Entry& entry) = nullptr;  ///< where the page leads to; "" nowhere
};

/// One figure of a table.
struct Figure {
  struct Page {
    std::string_view group;
    std::string_view title;  ///< of its column; "" none
    std::string_view joint;  ///< without a column: what stands between the figure before and it
  };
  struct Line {
    std::string_view header;  ///< of its column; "" none
    Detail from;              ///< brief: the column is always there
    std::string_view behind;  ///< key of the column before it; "": as in the table
  };
  const char* key;  ///< the member of /status.json
  Page page;
  Line line;  ///< in the terminal
  Unit unit;
  std::string_view means;
  std::string_view metric = "";  ///< with the same value; "" none
  Style style{};
};

[[nodiscard]] Tone tone_of(const Figure& figure, const Entry& entry);

/// All figures of a table, in the order of the page.
struct FigureTable {
  const char* name;
  std::span<const Figure> figures;
};
extern const FigureTable kServers, kRules, kApplications, kClients, kProxies;
extern const FigureTable kEvents;  ///< only the page has them
extern const FigureTable kLimits;  ///< one line each, with `current`, `most` and so on of its key

}  // namespace idproxy::app::views
