#include "app/views/status_page.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "app/json_view.hpp"
#include "app/views/columns.hpp"
#include "app/views/figures.hpp"
#include "idproxy/base/printable.hpp"
#include "idproxy/base/words.hpp"

namespace idproxy::app::views {
namespace {

using Number = std::optional<double>;

std::string_view class_of(Tone tone) {
  return tone == Tone::good      ? "ok"
         : tone == Tone::warning ? "warn"
         : tone == Tone::bad     ? "bad"
                                 : "";
}

std::string link(std::string_view target, std::string_view text) {
  return "<a href=\"" + escaped(target) + "\">" + escaped(text) + "</a>";
}

std::string badge(Tone tone, std::string_view word) {
  return "<span class=\"state " + std::string(class_of(tone)) + "\">" + escaped(word) + "</span>";
}

/// Of a table, with the name of its rows' anchors.
using Rows = std::vector<JsonView>;
using Ids = std::function<std::string(const JsonView& row)>;

/// The figure of a column of the page, and those that are joined to it.
using Column = std::span<const Figure>;

std::vector<Column> columns_of(const FigureTable& table) {
  std::vector<Column> columns;
  for (const Figure& each : table.figures) {
    if (!each.page.title.empty()) columns.emplace_back(&each, 1);
    if (!each.page.joint.empty()) columns.back() = {columns.back().data(), &each + 1};
  }
  return columns;
}

std::string text_of(const Column& column, const Entry& entry) {
  std::string text = column[0].unit.page(entry, column[0].key);
  for (const Figure& each : column.subspan(1)) {
    if (!entry.of[each.key].number()) continue;
    text += std::string(each.page.joint) + each.unit.page(entry, each.key);
  }
  return text;
}

/// The classes of a cell, as an attribute.
std::string classes_of(Unit::Kind kind, std::string_view text, Tone tone) {
  const bool is_text = kind == Unit::Kind::text && text != "-";
  std::string classes = kind == Unit::Kind::number ? "number" : is_text ? "text" : "";
  const std::string_view its = class_of(tone);
  if (!its.empty()) classes.append(classes.empty() ? "" : " ").append(its);
  return classes.empty() ? "" : " class=\"" + classes + "\"";
}

void append_heads(std::string& out, const std::vector<Column>& columns) {
  out += "<tr class=\"groups\">";
  for (std::size_t i = 0; i < columns.size();) {
    const std::string_view group = columns[i][0].page.group;
    const std::size_t first = i;
    while (i < columns.size() && columns[i][0].page.group == group) ++i;
    out += "<th scope=\"colgroup\" colspan=\"" + std::to_string(i - first) + "\">" +
           escaped(group) + "</th>";
  }
  out += "</tr><tr>";
  for (const Column& each : columns) {
    out += "<th scope=\"col\"";
    if (each[0].unit.kind == Unit::Kind::number) out += " class=\"number\"";
    out += " title=\"" + escaped(each[0].means) + "\">" + escaped(each[0].page.title) + "</th>";
  }
  out += "</tr>";
}

void append_cell(std::string& out, const Column& column, const Entry& entry) {
  const Figure& figure = column[0];
  const std::string text = text_of(column, entry);
  const std::string target = figure.style.link == nullptr ? "" : figure.style.link(entry);
  out += "<td" + classes_of(figure.unit.kind, text, tone_of(figure, entry)) + ">" +
         (target.empty() ? escaped(text) : link(target, text)) + "</td>";
}

/// A table that can be scrolled, with its explanations below it.
std::string table(const FigureTable& figures, const Rows& rows, const Ids& id_of, double now) {
  const std::vector<Column> columns = columns_of(figures);
  const std::string label(figures.name);
  std::string out = "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"" + label +
                    "\"><table><thead>";
  append_heads(out, columns);
  out += "</thead><tbody>";
  for (const JsonView& row : rows) {
    out += "<tr id=\"" + escaped(id_of(row)) + "\">";
    for (const Column& each : columns) append_cell(out, each, {row, now});
    out += "</tr>";
  }
  out += "</tbody></table></div><details><summary>The columns of " + label + "</summary><dl>";
  for (const Column& each : columns) {
    out += "<dt>" + escaped(each[0].page.title) + "</dt><dd>" + escaped(each[0].means) + "</dd>";
  }
  return out + "</dl></details>";
}

/// Draws one series of the last ten minutes.
class Chart {
 public:
  Chart(const JsonView& series, std::string (*text_of)(Number)) : text_of_(text_of) {
    for (const JsonView& each : series.items()) points_.push_back(each.number());
    for (const Number& each : points_) most_ = std::max(most_, each.value_or(0));
  }

  [[nodiscard]] std::string html(std::string_view caption, std::string_view unit) const {
    const Number now = points_.empty() ? std::nullopt : points_.back();
    const std::string current = text_of_(now);
    const std::string most = text_of_(most_);
    return "<figure><figcaption>" + escaped(caption) + "<b>" + escaped(current) +
           "</b></figcaption><svg viewBox=\"0 0 200 40\" preserveAspectRatio=\"none\" role=\"img\" "
           "aria-label=\"" +
           escaped(std::string(caption) + " in the last ten minutes: now " + current +
                   ", at most " + most) +
           "\">" + lines() + "</svg><small>at most " + escaped(most) + escaped(unit) +
           "</small></figure>";
  }

 private:
  static constexpr std::size_t kWidth = 200;
  static constexpr std::size_t kSeconds = 600;
  static constexpr std::size_t kPerPoint = kSeconds / kWidth;

  /// Three seconds share a point, the highest of them, at the right end if there are fewer.
  [[nodiscard]] std::string lines() const {
    std::string out;
    std::string line;
    const auto flush = [&] {
      if (!line.empty()) out += "<polyline points=\"" + line + "\"/>";
      line.clear();
    };
    const std::size_t missing = kSeconds - std::min(points_.size(), kSeconds);
    for (std::size_t x = 0; x < kWidth; ++x) {
      Number highest;
      for (std::size_t i = x * kPerPoint; i < (x + 1) * kPerPoint; ++i) {
        if (i < missing) continue;
        const Number& each = points_[i - missing];
        if (each) highest = std::max(highest.value_or(0), *each);
      }
      if (!highest) {
        flush();
        continue;
      }
      const double y = most_ > 0 ? 39 - 38 * *highest / most_ : 39;
      line += (line.empty() ? "" : " ") + std::to_string(x) + "," +
              std::to_string(static_cast<int>(std::lround(y)));
    }
    flush();
    return out;
  }

  std::vector<Number> points_;
  double most_ = 0;
  std::string (*text_of_)(Number);
};

/// Writes the parts of the page one after the other.
class Page {
 public:
  Page(const JsonView& document, const state::StatusQuery& query)
      : document_(document), query_(query), now_(document["now"].number().value_or(0)) {}

  std::string html() {
    head();
    out_ += "<main>";
    title();
    wrong();
    charts();
    servers();
    rules();
    clients();
    limits();
    proxies();
    events();
    about();
    out_ += "</main></body></html>\n";
    return std::move(out_);
  }

 private:
  void head() {
    out_ +=
        "<!DOCTYPE html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
        "content=\"width=device-width, initial-scale=1\"><title>mongo-idproxy</title>"
        "<link rel=\"icon\" href=\"/favicon.ico\"><link rel=\"stylesheet\" "
        "href=\"/status.css\"><script src=\"/status.js\" defer></script>"
        "</head><body><header><h1>mongo-idproxy</h1><p><a href=\"/status.json\">status.json</a></p>"
        "<p><a href=\"/metrics\">metrics</a></p><p><a href=\"/readyz\">readyz</a></p>"
        "<p><a href=\"/livez\">livez</a></p><p id=\"age\"></p></header>";
  }

  void title() {
    const std::string phase = document_["phase"].text();
    out_ += "<p>" + badge(phase == "ready" ? Tone::good : Tone::warning, phase) + " " +
            escaped("up for " + age_text(now_ - document_["started"].number().value_or(now_)) +
                    ", figures of " + clock_text(now_)) +
            "</p><nav aria-label=\"Sections\"><a href=\"#wrong\">What is wrong</a> "
            "<a href=\"#servers\">Servers</a> <a href=\"#rules\">Rules</a> "
            "<a href=\"#clients\">Clients</a> <a href=\"#limits\">Limits</a> "
            "<a href=\"#events\">Events</a> "
            "<a href=\"#about\">About</a></nav>";
  }

  void section(std::string_view id, std::string_view name_of_it) {
    out_ += "<h2 id=\"" + std::string(id) + "\">" + escaped(name_of_it) + "</h2>";
  }

  void wrong() {
    section("wrong", "What is wrong now");
    const Rows found = document_["wrong"].items();
    if (found.empty()) {
      out_ += document_["phase"].text() != "starting"
                  ? "<p>" + badge(Tone::good, "nothing") + "</p>"
                  : "<p class=\"note\">The proxy is starting.</p>";
      return;
    }
    out_ += "<ul class=\"wrong\">";
    for (const JsonView& each : found) {
      const bool is_error = each["level"].text() == "error";
      out_ += "<li class=\"" + std::string(class_of(is_error ? Tone::bad : Tone::warning)) +
              "\"><p><strong>" + escaped(is_error ? "Error: " : "Warning: ") + "</strong>" +
              escaped(each["text"].text()) +
              ".</p><p>What to do: " + escaped(each["remedy"].text()) + " (docs/" +
              escaped(each["link"].text()) + ").</p></li>";
    }
    out_ += "</ul>";
  }

  void charts() {
    section("lately", "The last ten minutes");
    const JsonView history = document_["history"];
    out_ += "<div class=\"charts\">";
    const auto add = [&](const char* series, std::string_view caption, auto text_of,
                         std::string_view unit) {
      out_ += Chart(history[series], text_of).html(caption, unit);
    };
    add("requests", "Requests", rate_text, " a second");
    add("values", "Values given", rate_text, " a second");
    add("duplicates", "Duplicates", rate_text, " a second");
    add("clients", "Clients", count_text, "");
    add("p50", "Time to reply, p50", latency_text, "");
    add("p99", "Time to reply, p99", latency_text, "");
    add("bytes", "Bytes to and from servers", bytes_text, " a second");
    add("store_round_trips", "Round trips of the id store", rate_text, " a second");
    out_ += "</div>";
  }

  void legend(const FigureTable& table) {
    out_ += "<p class=\"legend\">";
    for (const Figure& each : table.figures) {
      for (const auto& [tone, word] : each.style.legend) {
        if (!word.empty()) out_ += badge(tone, word) + " ";
      }
    }
    out_ += "</p>";
  }

  void servers() {
    section("servers", "Servers");
    out_ += table(
        kServers, document_["servers"].items(),
        [](const JsonView& row) { return "server-" + row["server"].text(); }, now_);
    const JsonView store = document_["store"];
    if (store.is_object()) {
      const bool up = store["up"].is_true();
      out_ += "<p>The id store " + badge(up ? Tone::good : Tone::bad, up ? "answers" : "is down") +
              escaped(": " + count_text(store["round_trips"].number()) + " round trips, p50 " +
                      latency_text(store["p50"].number()) + ", p99 " +
                      latency_text(store["p99"].number())) +
              "</p>";
    }
    legend(kServers);
  }

  void rules() {
    section("rules", "Rules");
    const Rows shown = document_["rules"].items();
    const double all = document_["rules_total"].number().value_or(0);
    out_ += "<p class=\"note\">";
    if (query_.rules == state::StatusQuery::Rules::failing) {
      out_ += "Only rules that fail or run out. " + link("/#rules", "Show all");
    } else {
      if (static_cast<double>(shown.size()) < all) {
        out_ += escaped("The " + std::to_string(shown.size()) + " of " + count_text(all) +
                        " that fail, end first or give the most values. ");
      }
      out_ += link("/?rules=failing#rules", "Only those that fail or run out");
    }
    out_ +=
        "</p>" + table(
                     kRules, shown,
                     [](const JsonView& row) { return "rule-" + count_text(row["rule"].number()); },
                     now_);
    legend(kRules);
  }

  void clients() {
    section("clients", "Clients");
    const JsonView clients = document_["clients"];
    const Rows shown = clients["list"].items();
    out_ += "<p class=\"note\">" + escaped(count_text(clients["total"].number()) + " connected");
    if (query_.application) {
      out_ += escaped("; " + count_text(clients["matching"].number()) + " of the application " +
                      *query_.application + ". ") +
              link("/#clients", "Show all");
    } else if (static_cast<double>(shown.size()) < clients["total"].number().value_or(0)) {
      out_ +=
          escaped("; the " + std::to_string(shown.size()) + " with the most memory and requests");
    }
    if (clients["complete"].is_false()) out_ += "; a thread did not answer in time";
    out_ += "</p>";
    compressed(clients["requests_compressed"]);
    applications(clients);
    out_ += table(
        kClients, shown,
        [](const JsonView& row) {
          return "client-" +
                 std::to_string(static_cast<std::uint64_t>(row["id"].number().value_or(0)));
        },
        now_);
  }

  void applications(const JsonView& clients) {
    Rows rows = clients["applications"].items();
    if (clients["other_applications"].is_object()) rows.push_back(clients["other_applications"]);
    out_ += table(
        kApplications, rows,
        [](const JsonView& row) {
          return (row["applications"].number() ? "applications-" : "application-") +
                 row["application"].text();
        },
        now_);
  }

  void compressed(const JsonView& requests) {
    std::string counts;
    for (const char* each : {"snappy", "zlib", "zstd"}) {
      const Number count = requests[each].number();
      if (count.value_or(0) == 0) continue;
      counts += (counts.empty() ? "" : ", ") + std::string(each) + " " + count_text(count);
    }
    if (counts.empty()) return;
    out_ +=
        "<p class=\"note\">" + escaped("Compressed requests since the start: " + counts) + "</p>";
  }

  void limits() {
    section("limits", "Limits");
    out_ +=
        "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"limits\"><table>"
        "<thead><tr><th scope=\"col\">What</th><th scope=\"col\" class=\"number\">now</th>"
        "<th scope=\"col\" class=\"number\">most in ten minutes</th>"
        "<th scope=\"col\" class=\"number\">most</th>"
        "<th scope=\"col\" class=\"number\">limit</th></tr></thead><tbody>";
    for (const Figure& each : kLimits.figures) limit(each);
    out_ += "</tbody></table></div><p class=\"note\">Looked at once a second.</p>";
  }

  void limit(const Figure& figure) {
    static const boost::json::value kNone{{"current", 0}};  // before the proxy serves
    const JsonView known = document_["limits"][figure.key];
    const Entry limit{known.is_object() ? known : JsonView(kNone), now_};
    out_ += "<tr><td>" + escaped(figure.page.title) + "</td><td class=\"number " +
            std::string(class_of(tone_of(figure, limit))) + "\">" +
            escaped(figure.unit.page(limit, "current")) + "</td>";
    for (const char* each : {"most_lately", "most", "limit"}) {
      out_ += "<td class=\"number\">" + escaped(figure.unit.page(limit, each)) + "</td>";
    }
    out_ += "</tr>";
  }

  void proxies() {
    const Rows known = document_["proxies"].items();
    if (known.empty()) return;
    section("proxies", "Proxies of this id store");
    out_ += table(
        kProxies, known,
        [](const JsonView& row) {
          const Rows listeners = row["listeners"].items();
          return "proxy-" + row["host"].text() +
                 (listeners.empty() ? "" : "-" + listeners.front().text());
        },
        now_);
  }

  void events() {
    section("events", "The last events of the log");
    Rows lines = document_["events"].items();
    std::ranges::reverse(lines);
    std::size_t place = lines.size();
    out_ += table(
        kEvents, lines, [&place](const JsonView&) { return "event-" + std::to_string(place--); },
        now_);
  }

  void about() {
    section("about", "About this proxy");
    const JsonView configuration = document_["configuration"];
    const JsonView last = configuration["last_reload"];
    out_ += "<dl>";
    entry("version", document_["version"].text() + ", commit " + document_["commit"].text());
    entry("process",
          "pid " +
              std::to_string(static_cast<std::int64_t>(document_["pid"].number().value_or(0))) +
              ", started " + date_text(document_["started"].number()));
    entry("configuration", configuration["file"].text());
    entry("read",
          date_text(configuration["read"].number()) + ", rules " + configuration["hash"].text());
    if (last.is_object()) {
      entry("last reload", clock_text(last["at"].number()) +
                               (last["applied"].is_true() ? ": " : ", refused: ") +
                               last["text"].text());
    }
    out_ += "</dl>";
  }

  void entry(std::string_view term, std::string_view text) {
    out_ += "<dt>" + escaped(term) + "</dt><dd>" + escaped(text) + "</dd>";
  }

  const JsonView document_;
  const state::StatusQuery& query_;
  const double now_;
  std::string out_;
};

}  // namespace

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : printable(text)) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string status_page(const boost::json::value& document, const state::StatusQuery& query) {
  return Page(JsonView(document), query).html();
}

}  // namespace idproxy::app::views
