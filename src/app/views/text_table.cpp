#include "app/views/text_table.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "idproxy/base/printable.hpp"

namespace idproxy::app::views {
namespace {

constexpr std::size_t kGap = 2;         // in front of each column
constexpr std::size_t kNoteIndent = 4;  // of notes
constexpr std::size_t kNarrowest = 9;   // a text is not shortened further
constexpr std::size_t kNoLimit = std::string::npos;

/// Takes from the widest columns of texts until the line has room.
void narrow(std::vector<std::size_t>& widths, const std::vector<TextTable::Column>& columns,
            std::size_t room) {
  std::size_t total = std::accumulate(widths.begin(), widths.end(), kGap * widths.size());
  for (; total > room; --total) {
    std::size_t* widest = nullptr;
    for (std::size_t i = 0; i < widths.size(); ++i) {
      const bool is_text = columns[i].align == TextTable::Align::left;
      if (is_text && widths[i] > kNarrowest && (widest == nullptr || widths[i] > *widest)) {
        widest = &widths[i];
      }
    }
    if (widest == nullptr) return;
    --*widest;
  }
}

}  // namespace

void TextTable::add(std::vector<TableCell> cells) {
  for (TableCell& cell : cells) cell.text = printable(cell.text);
  cells.resize(columns_.size());
  rows_.push_back({std::move(cells)});
}

void TextTable::add_note(const std::string& text, Tone tone) {
  rows_.push_back({{}, text, tone});
}

std::vector<std::size_t> TextTable::widths(const Terminal& terminal) const {
  std::vector<std::size_t> widths;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    std::size_t width = display_width(columns_[i].header);
    for (const Row& row : rows_) {
      if (!row.cells.empty()) width = std::max(width, display_width(row.cells[i].text));
    }
    widths.push_back(width);
  }
  if (terminal.columns > 0) narrow(widths, columns_, terminal.columns);
  return widths;
}

std::string TextTable::line_of(const std::vector<TableCell>& cells,
                               const std::vector<std::size_t>& widths,
                               const Terminal& terminal) const {
  std::string line;
  std::string blanks;  // not yet written, so that no line ends with them
  std::size_t room = terminal.columns > 0 ? terminal.columns : kNoLimit;
  for (std::size_t i = 0; i < cells.size() && room > kGap; ++i) {
    room -= kGap;
    const std::string text = shortened(cells[i].text, std::min(widths[i], room));
    const std::size_t rest = std::min(widths[i], room) - display_width(text);
    const bool is_right = columns_[i].align == Align::right;
    blanks.append(kGap + (is_right ? rest : 0), ' ');
    if (!text.empty()) line += std::exchange(blanks, "") + terminal.coloured(text, cells[i].tone);
    if (!is_right) blanks.append(rest, ' ');
    room -= std::min(widths[i], room);
  }
  return line + '\n';
}

std::string TextTable::text(const Terminal& terminal) const {
  const std::vector<std::size_t> all = widths(terminal);
  std::vector<TableCell> headers;
  headers.reserve(columns_.size());
  for (const Column& column : columns_) headers.push_back({column.header, Tone::faint});
  std::string text = has_headers_ ? line_of(headers, all, terminal) : "";
  const std::string indent(kNoteIndent, ' ');
  for (const Row& row : rows_) {
    text += row.cells.empty() ? terminal.wrapped(indent, row.note, kNoteIndent, row.tone)
                              : line_of(row.cells, all, terminal);
  }
  return text;
}

}  // namespace idproxy::app::views
