#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "app/views/terminal.hpp"

namespace idproxy::app::views {

/// One place in a table.
struct TableCell {
  std::string text{};
  Tone tone = Tone::plain;
};

/// A table, mostly with a line of headers, whose columns are as wide as their longest cell: texts
/// to the left, numbers to the right. Where it is wider than the terminal, its widest texts are
/// shortened.
class TextTable {
 public:
  enum class Align { left, right };
  struct Column {
    std::string header;
    Align align = Align::left;
  };

  explicit TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {}
  /// Without headers, all to the left.
  explicit TextTable(std::size_t columns) : columns_(columns), has_headers_(false) {}

  /// A cell for each column, of any text.
  void add(std::vector<TableCell> cells);
  /// A text below the last row, which no column bounds.
  void add_note(const std::string& text, Tone tone);

  /// Its lines, each with a newline and indented by two blanks.
  [[nodiscard]] std::string text(const Terminal& terminal) const;

 private:
  struct Row {
    std::vector<TableCell> cells;
    std::string note{};  // in place of cells
    Tone tone = Tone::plain;
  };
  [[nodiscard]] std::vector<std::size_t> widths(const Terminal& terminal) const;
  [[nodiscard]] std::string line_of(const std::vector<TableCell>& cells,
                                    const std::vector<std::size_t>& widths,
                                    const Terminal& terminal) const;

  std::vector<Column> columns_;
  bool has_headers_ = true;
  std::vector<Row> rows_;
};

}  // namespace idproxy::app::views
