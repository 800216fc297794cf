#include "app/views/status_page.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "app/json_view.hpp"
#include "app/state/servers_log.hpp"
#include "app/views/figures.hpp"
#include "idproxy/base/printable.hpp"
#include "idproxy/base/words.hpp"

namespace idproxy::app::views {
namespace {

using Number = std::optional<double>;

/// What a row, or a cell, looks like: a color and a word.
enum class State { none, ok, warn, bad };

std::string_view class_of(State state) {
  constexpr std::array<std::string_view, 4> kClasses{"", "ok", "warn", "bad"};
  return kClasses[static_cast<std::size_t>(state)];
}

struct Cell {
  std::string html;  ///< escaped
  State state = State::none;
};

Cell plain(std::string_view text) {
  return {escaped(text.empty() ? "-" : text)};
}

/// A column of a table of figures.
struct Column {
  enum class Kind { name, number, text };
  std::string_view group;
  std::string_view title;
  std::string_view means;  ///< an explanation of the title
  Kind kind;
  std::function<Cell(const JsonView& row, double now)> cell;
};

std::string link(std::string_view target, std::string_view text) {
  return "<a href=\"" + escaped(target) + "\">" + escaped(text) + "</a>";
}

std::string badge(State state, std::string_view word) {
  return "<span class=\"state " + std::string(class_of(state)) + "\">" + escaped(word) + "</span>";
}

/// "for 3 min"; empty: not known.
std::string lasting(const JsonView& since, double now) {
  const Number time = since.number();
  return time ? " for " + age_text(now - *time) : "";
}

/// Of a table, with the name of its rows' anchors.
using Rows = std::vector<JsonView>;
using Ids = std::function<std::string(const JsonView& row)>;

void append_heads(std::string& out, const std::vector<Column>& columns) {
  out += "<tr class=\"groups\">";
  for (std::size_t i = 0; i < columns.size();) {
    std::size_t end = i;
    while (end < columns.size() && columns[end].group == columns[i].group) ++end;
    out += "<th scope=\"colgroup\" colspan=\"" + std::to_string(end - i) + "\">" +
           escaped(columns[i].group) + "</th>";
    i = end;
  }
  out += "</tr><tr>";
  for (const Column& each : columns) {
    out += "<th scope=\"col\"";
    if (each.kind == Column::Kind::number) out += " class=\"number\"";
    out += " title=\"" + escaped(each.means) + "\">" + escaped(each.title) + "</th>";
  }
  out += "</tr>";
}

void append_row(std::string& out, const std::vector<Column>& columns, const JsonView& row,
                const std::string& id, double now) {
  out += "<tr id=\"" + escaped(id) + "\">";
  for (const Column& each : columns) {
    const Cell cell = each.cell(row, now);
    const bool is_text = each.kind == Column::Kind::text && cell.html != "-";
    std::string classes(each.kind == Column::Kind::number ? "number" : is_text ? "text" : "");
    if (cell.state != State::none) {
      classes.append(classes.empty() ? "" : " ").append(class_of(cell.state));
    }
    out += classes.empty() ? "<td>" : "<td class=\"" + classes + "\">";
    out += cell.html + "</td>";
  }
  out += "</tr>";
}

/// A table that can be scrolled, with its explanations below it.
std::string table(std::string_view label, const std::vector<Column>& columns, const Rows& rows,
                  const Ids& id_of, double now) {
  std::string out = "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"" +
                    escaped(label) + "\"><table><thead>";
  append_heads(out, columns);
  out += "</thead><tbody>";
  for (const JsonView& row : rows) append_row(out, columns, row, id_of(row), now);
  out +=
      "</tbody></table></div><details><summary>The columns of " + escaped(label) + "</summary><dl>";
  for (const Column& each : columns) {
    out += "<dt>" + escaped(each.title) + "</dt><dd>" + escaped(each.means) + "</dd>";
  }
  return out + "</dl></details>";
}

using Kind = Column::Kind;

/// A column that shows one member of the row.
template <class Text>
Column figure(std::string_view group, std::string_view title, const char* member, Text text_of,
              std::string_view means) {
  return {group, title, means, Kind::number, [member, text_of](const JsonView& row, double) {
            return plain(text_of(row[member].number()));
          }};
}

Column name(std::string_view group, std::string_view title, const char* member,
            std::string_view means) {
  return {group, title, means, Kind::name,
          [member](const JsonView& row, double) { return plain(row[member].text()); }};
}

// ---- servers ---------------------------------------------------------------------------------

Cell server_state(const JsonView& server, double now) {
  const std::string word = server["state"].text() + lasting(server["since"], now);
  if (!server["up"].is_true()) return {escaped(word), State::bad};
  if (state::is_slow(server["oldest"].number())) {
    return {escaped("slow: " + word), State::bad};
  }
  return {escaped(word), server["fault"].text().empty() ? State::ok : State::warn};
}

/// "3, 12 s": so many, and how long the first has been there.
Cell with_age(const JsonView& number, const JsonView& oldest) {
  const std::string text = count_text(number.number());
  return plain(oldest.number() ? text + ", " + age_text(oldest.number()) : text);
}

Cell oldest_request(const JsonView& row, double) {
  const Number oldest = row["oldest"].number();
  if (!oldest) return plain("-");
  return {escaped(age_text(oldest)), state::is_slow(oldest) ? State::bad : State::none};
}

Cell last_failure(const JsonView& server, double now) {
  const JsonView failure = server["last_failure"];
  const std::string fault = server["fault"].text();
  if (!failure.is_object()) return plain(fault);
  return plain(failure["reason"].text() + ", " +
               age_text(now - failure["at"].number().value_or(now)) + " ago");
}

Cell server_logins(const JsonView& server, double) {
  const JsonView logins = server["logins"];
  return plain(logins.is_true() ? "wanted" : logins.is_false() ? "not wanted" : "not known");
}

const std::vector<Column>& server_columns() {
  static const std::vector<Column> columns{
      name("server", "server", "server", "its name in upstream.uri, or in its replica set"),
      {"server", "state", "what it said last, or down if it cannot be reached, and since when",
       Kind::name, server_state},
      name("server", "release", "release", "its version, as buildInfo says"),
      {"server", "logins", "whether it refuses clients that have not logged in", Kind::name,
       server_logins},
      name("server", "listener", "listener", "where clients reach this server"),
      figure("clients", "clients", "clients", count_text,
             "connections of clients, each with one to this server"),
      figure("requests", "in flight", "in_flight", count_text,
             "requests that wait for their reply; without hellos and cursors that wait for news"),
      {"requests", "oldest", "how long the oldest of them has waited; yellow from 5 s on",
       Kind::number, oldest_request},
      figure("requests", "sent", "requests", count_text, "requests since the start"),
      figure("time to reply", "p50", "p50", latency_text,
             "half of the requests of the last minute were answered within this time"),
      figure("time to reply", "p99", "p99", latency_text, "99 of 100 were"),
      figure("time to reply", "hello", "round_trip", latency_text,
             "how long the last hello took, which costs the server nothing"),
      figure("bytes", "to it", "bytes_sent", bytes_text, "since the start"),
      figure("bytes", "from it", "bytes_received", bytes_text, "since the start"),
      figure("failures", "number", "connect_failures", count_text,
             "connections to it that could not be made"),
      {"failures", "last", "why and when, or what else is wrong with it", Kind::text, last_failure},
  };
  return columns;
}

// ---- rules -----------------------------------------------------------------------------------

/// The reasons are above, with what to do.
Cell rule_state(const JsonView& rule, double) {
  if (!rule["reason"].text().empty()) return {link("#wrong", "not ready"), State::bad};
  const double not_ready = rule["not_ready_collections"].number().value_or(0);
  if (not_ready > 0) return {link("#wrong", "not ready in " + count_text(not_ready)), State::bad};
  if (!rule["warning"].text().empty()) return {link("#wrong", "ready, runs out"), State::warn};
  if (rule["unguarded_collections"].number().value_or(0) > 0) {
    return {link("#wrong", "ready, no unique index"), State::warn};
  }
  return {"ready", State::ok};
}

Cell full_at(const JsonView& rule, double now) {
  const auto text = [&](const char* member) {
    const Number at = rule[member].number();
    return at ? date_text(at) + " (" + age_text(*at - now) + ")" : std::string("-");
  };
  const std::string hour = text("full_at_hour_rate");
  const std::string day = text("full_at_day_rate");
  return plain(hour == day ? hour : hour + ", " + day);
}

/// Counts by reason.
std::function<Cell(const JsonView&, double)> reasons(const char* member) {
  return [member](const JsonView& rule, double) {
    const JsonView counts = rule[member];
    std::string text;
    for (const std::string& reason : counts.keys()) {
      text += (text.empty() ? "" : ", ") + reason + " " + count_text(counts[reason].number());
    }
    return plain(text);
  };
}

const std::vector<Column>& rule_columns() {
  static const std::vector<Column> columns{
      figure("rule", "#", "rule", count_text, "its place in the file, from 0 on"),
      name("rule", "ns", "ns", "the collections to which it applies"),
      name("rule", "field", "field", "the field that it fills"),
      name("rule", "strategy", "strategy", "how it makes values"),
      {"rule", "state", "whether it gives values", Kind::name, rule_state},
      figure("values", "a second", "values_per_second", rate_text, "lately"),
      figure("values", "in all", "values", count_text, "since the start"),
      {"values", "last", "when it gave the last one", Kind::number,
       [](const JsonView& rule, double now) {
         const Number at = rule["last_value"].number();
         return plain(at ? age_text(now - *at) + " ago" : "-");
       }},
      {"values", "waiting",
       "requests that wait for one, or for their turn, and how long the first has", Kind::number,
       [](const JsonView& rule, double) {
         return with_age(rule["waiting"], rule["oldest_waiting"]);
       }},
      figure("duplicates", "sent again", "resent", count_text,
             "documents that got another value because theirs was taken"),
      figure("duplicates", "given up", "given_up", count_text,
             "duplicates that went to the client"),
      figure("numbers", "next", "next", count_text,
             "the next number of the rule's one counter, as far as this proxy knows"),
      figure("numbers", "in memory", "held", count_text, "numbers for the next inserts"),
      figure("numbers", "left", "left", left_text, "up to max"),
      {"numbers", "full on", "when none is left, at the rate of the last hour, and of the last day",
       Kind::name, full_at},
      {"past the rule", "without a value",
       "upserts and other commands that the rule did not cover, by reason", Kind::name,
       reasons("forwarded")},
      {"past the rule", "values taken away",
       "updates that took a stored value away or set the field, by reason", Kind::name,
       reasons("taken_away")},
  };
  return columns;
}

// ---- clients ---------------------------------------------------------------------------------

Cell link_to_application(const JsonView& row, double) {
  const std::string application = row["application"].text();
  if (application.empty()) return plain("-");
  if (row["applications"].number()) return plain(application);  // it stands for many
  return {link("/?clients=app:" + percent_encoded(application) + "#clients", application)};
}

Cell open_transactions(const JsonView& row, double) {
  return with_age(row["transactions"], row["oldest_transaction"]);
}

const std::vector<Column>& application_columns() {
  static const std::vector<Column> columns{
      {"application", "application", "appName in the connection strings of its clients", Kind::name,
       link_to_application},
      figure("application", "clients", "connections", count_text, "its connections"),
      figure("requests", "a second", "requests_per_second", rate_text,
             "of the last ten seconds, with those of connections that are closed"),
      figure("requests", "documents a second", "documents_per_second", rate_text,
             "of its inserts into collections with rules, the same"),
      {"requests", "waits", "how long its oldest request has waited for the server", Kind::number,
       oldest_request},
      {"requests", "in txn", "open transactions, and how long the first is open", Kind::number,
       open_transactions},
      figure("bytes", "held", "memory", bytes_text, "memory of messages that are held whole, now"),
  };
  return columns;
}

const std::vector<Column>& client_columns() {
  static const std::vector<Column> columns{
      figure("client", "#", "id", count_text, "connection in the log"),
      name("client", "address", "address", "of the client's host; - for a Unix socket"),
      {"client", "application", "appName in its connection string", Kind::name,
       link_to_application},
      name("client", "driver", "driver", "and its version, as the driver says"),
      name("client", "user", "user", "the last that it logged in as, or tried to"),
      {"client", "connected", "since when", Kind::number,
       [](const JsonView& client, double now) {
         const Number since = client["since"].number();
         return plain(since ? age_text(now - *since) : "-");
       }},
      name("server", "server", "server", "its server"),
      figure(
          "server", "port", "port",
          [](Number port) {
            return port && *port > 0 ? std::to_string(static_cast<int>(*port)) : "-";
          },
          "the proxy's own port, by which mongod's log and db.currentOp() know this client"),
      {"requests", "waits", "how long its oldest request has waited for the server", Kind::number,
       oldest_request},
      figure("requests", "sent", "requests", count_text, "since it connected"),
      figure("requests", "a second", "requests_per_second", rate_text, "of the last ten seconds"),
      figure("requests", "documents", "documents", count_text,
             "of its inserts into collections with rules"),
      figure("requests", "a second", "documents_per_second", rate_text,
             "documents of the last ten seconds"),
      figure("requests", "values", "values", count_text, "sent in its writes"),
      {"requests", "in txn",
       "transactions that it has begun and not ended, and how long the first is open", Kind::number,
       open_transactions},
      figure("bytes", "from it", "bytes_received", bytes_text, "since it connected"),
      figure("bytes", "to it", "bytes_sent", bytes_text, "since it connected"),
      figure("bytes", "held", "memory", bytes_text,
             "memory of messages that are held whole, now; who holds much comes first"),
      name("bytes", "in", "compressor", "the compressor of its requests"),
      {"bytes", "TLS", "whether its connection is encrypted", Kind::name,
       [](const JsonView& client, double) {
         return plain(client["tls"].is_true() ? "yes" : "no");
       }},
  };
  return columns;
}

// ---- limits, other proxies, events -----------------------------------------------------------

const std::vector<Column>& proxy_columns() {
  static const std::vector<Column> columns{
      {"proxy", "host", "where it runs", Kind::name,
       [](const JsonView& proxy, double) {
         return plain(proxy["host"].text() + (proxy["self"].is_true() ? " (this proxy)" : ""));
       }},
      name("proxy", "version", "version", "of the program"),
      name("proxy", "rules", "rules_hash", "equal for proxies with equal rules"),
      {"proxy", "listeners", "where clients reach it", Kind::name,
       [](const JsonView& proxy, double) {
         std::string text;
         for (const JsonView& each : proxy["listeners"].items()) {
           text += (text.empty() ? "" : ", ") + each.text();
         }
         return plain(text);
       }},
      {"proxy", "since", "when it was started", Kind::name,
       [](const JsonView& proxy, double) { return plain(date_text(proxy["since"].number())); }},
      {"proxy", "seen", "when it last said so", Kind::number,
       [](const JsonView& proxy, double now) {
         const Number seen = proxy["seen"].number();
         return plain(seen ? age_text(now - *seen) + " ago" : "-");
       }},
  };
  return columns;
}

Cell event_level(const JsonView& event, double) {
  const std::string level = event["level"].text();
  return {escaped(level), level == "error"     ? State::bad
                          : level == "warning" ? State::warn
                                               : State::none};
}

Cell event_text(const JsonView& event, double) {
  std::string text = event["message"].text();
  const JsonView fields = event["fields"];
  const char* separator = " · ";
  for (const std::string& each : fields.keys()) {
    text += separator + each + "=" + fields[each].text();
    separator = " ";
  }
  return plain(text);
}

const std::vector<Column>& event_columns() {
  static const std::vector<Column> columns{
      {"event", "time", "of this host", Kind::name,
       [](const JsonView& event, double) { return plain(clock_text(event["at"].number())); }},
      {"event", "level", "as in the log", Kind::name, event_level},
      name("event", "event", "event", "docs/log-events.md says what each means"),
      {"event", "text", "with its fields", Kind::text, event_text},
  };
  return columns;
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
    out_ += "<p>" + badge(phase == "ready" ? State::ok : State::warn, phase) + " " +
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
                  ? "<p>" + badge(State::ok, "nothing") + "</p>"
                  : "<p class=\"note\">The proxy is starting.</p>";
      return;
    }
    out_ += "<ul class=\"wrong\">";
    for (const JsonView& each : found) {
      const bool is_error = each["level"].text() == "error";
      out_ += "<li class=\"" + std::string(class_of(is_error ? State::bad : State::warn)) +
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

  void legend(std::initializer_list<std::pair<State, std::string_view>> entries) {
    out_ += "<p class=\"legend\">";
    for (const auto& [state, word] : entries) out_ += badge(state, word) + " ";
    out_ += "</p>";
  }

  void servers() {
    section("servers", "Servers");
    out_ += table(
        "servers", server_columns(), document_["servers"].items(),
        [](const JsonView& row) { return "server-" + row["server"].text(); }, now_);
    const JsonView store = document_["store"];
    if (store.is_object()) {
      const bool up = store["up"].is_true();
      out_ += "<p>The id store " + badge(up ? State::ok : State::bad, up ? "answers" : "is down") +
              escaped(": " + count_text(store["round_trips"].number()) + " round trips, p50 " +
                      latency_text(store["p50"].number()) + ", p99 " +
                      latency_text(store["p99"].number())) +
              "</p>";
    }
    legend({{State::ok, "up"},
            {State::warn, "slow, or not the one that is meant"},
            {State::bad, "down"}});
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
                     "rules", rule_columns(), shown,
                     [](const JsonView& row) { return "rule-" + count_text(row["rule"].number()); },
                     now_);
    legend({{State::ok, "gives values"},
            {State::warn, "its numbers run out"},
            {State::bad, "gives no values"}});
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
        "clients", client_columns(), shown,
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
        "applications", application_columns(), rows,
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
    limit("clients", "clients", count_text);
    limit("in_flight", "requests in flight", count_text);
    limit("waiting", "requests that wait for numbers, reservations or memory", count_text);
    limit("held_bytes", "memory of messages that are held whole", bytes_text);
    out_ += "</tbody></table></div><p class=\"note\">Looked at once a second.</p>";
  }

  void limit(const char* member, std::string_view what, std::string (*text_of)(Number)) {
    const JsonView figures = document_["limits"][member];
    const Number most = figures["limit"].number();
    const double current = figures["current"].number().value_or(0);
    const State state = !most || current < *most * 0.8 ? State::none
                        : current < *most              ? State::warn
                                                       : State::bad;
    out_ += "<tr><td>" + escaped(what) + "</td><td class=\"number " + std::string(class_of(state)) +
            "\">";
    out_ += escaped(text_of(current)) + "</td>";
    for (const char* each : {"most_lately", "most", "limit"}) {
      out_ += "<td class=\"number\">" + escaped(text_of(figures[each].number())) + "</td>";
    }
    out_ += "</tr>";
  }

  void proxies() {
    const Rows known = document_["proxies"].items();
    if (known.empty()) return;
    section("proxies", "Proxies of this id store");
    out_ += table(
        "proxies", proxy_columns(), known,
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
        "events", event_columns(), lines,
        [&place](const JsonView&) { return "event-" + std::to_string(place--); }, now_);
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
