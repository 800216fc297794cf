#include "app/views/status_lists.hpp"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "app/views/columns.hpp"
#include "app/views/figures.hpp"
#include "app/views/text_table.hpp"
#include "idproxy/base/printable.hpp"
#include "idproxy/base/words.hpp"

namespace idproxy::app::views {
namespace {

using Align = TextTable::Align;

constexpr std::size_t kBriefRows = 20;  // of a summary's list

/// The columns of a table that there are at this detail.
std::vector<const Figure*> columns_of(const FigureTable& table, Detail detail) {
  std::vector<const Figure*> columns;
  for (const Figure& each : table.figures) {
    if (!each.line.header.empty()) columns.push_back(&each);
  }
  for (const Figure& each : table.figures) {
    if (each.line.behind.empty()) continue;
    std::erase(columns, &each);
    columns.insert(std::ranges::find(columns, each.line.behind, &Figure::key) + 1, &each);
  }
  std::erase_if(columns, [&](const Figure* each) { return each->line.from > detail; });
  return columns;
}

void no_notes(TextTable& /*table*/, const Entry& /*entry*/) {}

/// `add_notes(table, entry)`: below the row of the entry.
template <class AddNotes = decltype(no_notes)>
std::string table_of(const FigureTable& figures, Detail detail, const std::vector<JsonView>& rows,
                     const JsonView& now, const Terminal& terminal,
                     const AddNotes& add_notes = no_notes) {
  const std::vector<const Figure*> columns = columns_of(figures, detail);
  std::vector<TextTable::Column> headers;
  for (const Figure* each : columns) {
    const bool is_right = each->unit.kind >= Unit::Kind::number;
    headers.push_back({std::string(each->line.header), is_right ? Align::right : Align::left});
  }
  TextTable table(std::move(headers));
  for (const JsonView& row : rows) {
    const Entry entry{row, now.number()};
    std::vector<TableCell> cells;
    cells.reserve(columns.size());
    for (const Figure* each : columns) {
      cells.push_back({each->unit.terminal(entry, each->key), tone_of(*each, entry)});
    }
    table.add(std::move(cells));
    add_notes(table, entry);
  }
  return table.text(terminal);
}

/// Those of a list that are shown, and how many are not.
std::vector<JsonView> shown_of(std::vector<JsonView> all, Detail detail) {
  if (detail == Detail::brief && all.size() > kBriefRows) all.resize(kBriefRows);
  return all;
}

std::string others_text(double total, std::size_t shown, const char* option) {
  const double others = total - static_cast<double>(shown);
  if (others < 1) return {};
  return "  " + and_more(static_cast<std::uint64_t>(others)) +
         (*option == '\0' ? "" : std::string(": status ") + option) + '\n';
}

void add_note_unless_empty(TextTable& table, const std::string& text, Tone tone) {
  if (!text.empty()) table.add_note(text, tone);
}

/// What stands in the way of connections to a server.
void add_notes_on_server(TextTable& table, const Entry& entry, Detail detail) {
  add_note_unless_empty(table, entry.of["fault"].text(), Tone::bad);
  const JsonView failure = entry.of["last_failure"];
  const bool is_told = detail == Detail::full || entry.of["up"].is_false();
  if (!is_told || failure["reason"].text().empty()) return;
  table.add_note("last failure " + age_text(Entry{failure, entry.now}.since("at")) +
                     " ago: " + failure["reason"].text(),
                 Tone::warning);
}

/// `application`: the only one; empty: all.
std::string applications_text(const JsonView& clients, const Terminal& terminal,
                              const std::string& application) {
  std::vector<JsonView> all = clients["applications"].items();
  const JsonView others = clients["other_applications"];
  if (others.is_object()) all.push_back(others);
  if (!application.empty()) {
    std::erase_if(all, [&](const JsonView& each) {
      return each["applications"].number() || each["application"].text() != application;
    });
  }
  if (all.empty()) return {};
  return terminal.heading("Applications") +
         table_of(kApplications, Detail::full, all, {}, terminal) + '\n';
}

}  // namespace

std::string servers_text(const JsonView& status, const Terminal& terminal, Detail detail) {
  const std::vector<JsonView> all = status["servers"].items();
  const std::vector<JsonView> shown = shown_of(all, detail);
  const auto add_notes = [&](TextTable& table, const Entry& entry) {
    add_notes_on_server(table, entry, detail);
  };
  return terminal.heading("Servers") +
         table_of(kServers, detail, shown, status["now"], terminal, add_notes) +
         others_text(static_cast<double>(all.size()), shown.size(), "--servers");
}

std::string rules_text(const JsonView& status, const Terminal& terminal, Detail detail) {
  const std::vector<JsonView> all = status["rules"].items();
  if (all.empty()) return terminal.heading("Rules") + "  none\n";
  const std::vector<JsonView> shown = shown_of(all, detail);
  const auto add_notes = [](TextTable& table, const Entry& entry) {
    add_note_unless_empty(table, entry.of["reason"].text(), Tone::bad);
    add_note_unless_empty(table, entry.of["warning"].text(), Tone::warning);
  };
  const double total = status["rules_total"].number().value_or(static_cast<double>(all.size()));
  return terminal.heading("Rules") +
         table_of(kRules, detail, shown, status["now"], terminal, add_notes) +
         others_text(total, shown.size(), detail == Detail::brief ? "--rules" : "");
}

std::string clients_text(const JsonView& status, const Terminal& terminal,
                         const std::string& application) {
  std::vector<JsonView> shown = status["clients"]["list"].items();
  if (!application.empty()) {
    std::erase_if(shown,
                  [&](const JsonView& each) { return each["application"].text() != application; });
  }
  const auto count = static_cast<double>(shown.size());
  const double total = status["clients"]["total"].number().value_or(count);
  const std::string title =
      "Clients" + (application.empty() ? "" : " of " + printable(application));
  if (shown.empty()) return terminal.heading(title) + "  none\n";
  return applications_text(status["clients"], terminal, application) + terminal.heading(title) +
         table_of(kClients, Detail::full, shown, status["now"], terminal) +
         (application.empty() ? others_text(total, shown.size(), "") : "");
}

std::string proxies_text(const JsonView& status, const Terminal& terminal) {
  std::vector<JsonView> others = status["proxies"].items();
  std::erase_if(others, [](const JsonView& each) { return each["self"].is_true(); });
  if (others.empty()) return {};
  const std::vector<JsonView> shown = shown_of(others, Detail::brief);
  return terminal.heading("Other proxies") +
         table_of(kProxies, Detail::full, shown, status["now"], terminal) +
         others_text(static_cast<double>(others.size()), shown.size(), "");
}

}  // namespace idproxy::app::views
