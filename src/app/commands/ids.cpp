#include <algorithm>
#include <boost/algorithm/string/case_conv.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <boost/system/error_code.hpp>
#include <boost/system/result.hpp>
#include <cstdint>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "app/commands/command.hpp"
#include "app/config_file.hpp"
#include "app/jobs/backfill_rule.hpp"
#include "app/jobs/rule_session.hpp"
#include "app/jobs/value_text.hpp"
#include "app/system_clock.hpp"
#include "idproxy/base/printable.hpp"
#include "idproxy/id_store/mongo.hpp"
#include "idproxy/id_store/stored_counters.hpp"
#include "idproxy/ids/counter_job.hpp"
#include "idproxy/ids/number_format.hpp"
#include "idproxy/ids/number_ranges.hpp"
#include "idproxy/ids/rule_source.hpp"

namespace idproxy::app::commands {
namespace {

/// Which values to show.
struct IdsRequest : jobs::RuleOptions {
  std::uint32_t count = 5;
  bool as_json = false;
  std::optional<std::string> decode{};  // a value to explain
};

using id_store::mongo::Array;
using id_store::mongo::Document;
using About = ids::RuleSource::About;

bool is_numbered(const About& about) {
  return about.counter || about.gapless;
}

/// Appends `count` numbers, or as many as there are up to `max`.
void append_from(ids::Int128 first, std::int64_t step, std::int64_t max,
                 const ids::NumberFormat& format, std::size_t count, ids::Values& out) {
  const std::uint64_t left = ids::Steps(step).count(first, max);
  for (std::uint64_t i = 0; i < std::min<std::uint64_t>(count, left); ++i) {
    ids::append_number(static_cast<std::int64_t>(first + step * ids::Int128{i}), format, out);
  }
}

/// The first values of a sequence that documents choose: of one whose fields hold their own names.
void append_of_sample(const About& about, std::size_t count, ids::Values& out) {
  const Clock& clock = process_sources().clock;
  const ids::Sequences sequences(about.sequences, "", about.field.format, clock, {});
  Document sample;
  std::string text;
  for (const std::string& field : sequences.fields()) {
    const std::string name = field.substr(field.rfind('.') + 1);
    sample.add(field, name);
    text += (text.empty() ? "" : ", ") + field + ": " + in_quotes(name);
  }
  std::vector<ids::FieldValue> values;
  bson::Elements elements(sample.bytes());
  while (const auto element = elements.next()) {
    values.push_back({ids::FieldValue::Is::there, *element});
  }
  const ids::NumberFormat format = sequences.choose(values, clock.wall()).format;
  if (about.gapless) {
    append_from(about.gapless->start, 1, about.gapless->max, format, count, out);
  } else {
    const ids::CounterSpec& spec = *about.counter;
    append_from(spec.start, spec.step, spec.max, format, count, out);
  }
  tell("the first values for a document with " + text +
       ": other documents have sequences, or texts, of their own");
}

void print(const IdsRequest& request, const rewrite::Rule& rule, const ids::Values& values) {
  if (!request.as_json) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      std::cout << printable(jobs::value_text(values.type(), values[i])) << '\n';
    }
    return;
  }
  Array all;
  for (std::size_t i = 0; i < values.size(); ++i) all.push(values.type(), values[i]);
  const Document document = Document()
                                .add("ns", request.ns)
                                .add("field", request.field)
                                .add("strategy", rule.strategy_name)
                                .add("values", all);
  std::cout << printable(id_store::mongo::json_of(document.bytes()), kWhole) << '\n';
}

[[nodiscard]] ExitCode refuse(const IdsRequest& request, const std::string& why) {
  return end_with(ExitCode::unavailable, "the rule for " + request.field + " in " + request.ns +
                                             " gives no values: " + why);
}

void say_whose() {
  tell(
      "the next numbers as the servers have them now: others may get them, and a running proxy "
      "first "
      "gives what it holds");
}

/// The counter of a collection, today's if the rule has one for each period, without its document.
id_store::StoredCounter counter_now(const About& about, const std::string& ns,
                                    ids::NumberFormat& format) {
  const Clock& clock = process_sources().clock;
  ids::FieldCounter counter = ids::counter_in(about, ns);
  const ids::Sequences sequences(about.sequences, counter.spec.place.key, counter.field.format,
                                 clock, {});
  const ids::Sequences::Chosen chosen = sequences.choose({}, clock.wall());
  if (about.sequences.any()) counter = ids::counter_of(about, counter, chosen);
  format = chosen.format;
  return {"", counter.spec, {counter.field}, {}};
}

/// A number of a counter, or why there is none.
using NextNumber = boost::system::result<ids::Int128, std::string>;

/// May lie beyond max, and outside of int64.
NextNumber next_of(const id_store::StoredCounter& counter) {
  if (!counter.value.is_number()) return "the counter holds no integer";
  const ids::Steps steps(counter.spec.step);
  return counter.next ? ids::Int128{*counter.next} : steps.end({counter.spec.max, 1});
}

/// The number with which the first insert would make it.
NextNumber first_of_new(id_store::StoredCounters& store, const id_store::StoredCounter& counter) {
  const auto stored = store.read(counter);
  if (!stored) return stored.error().reason;
  if (!stored->unknown.empty() && !counter.fields.front().repeats) {
    return "there is no counter yet, and " + stored->unknown;
  }
  const ids::Steps steps(counter.spec.step);
  const ids::Int128 start = counter.spec.start;
  const ids::Int128 behind = stored->most ? steps.end({*stored->most, 1}) : start;
  return steps.before(start, behind) ? behind : start;
}

/// Reads the counter, without a proxy's blocks.
ExitCode print_counter(const IdsRequest& request, const config::Config& config,
                       const rewrite::Rule& rule) {
  const About& about = rule.strategy->about();
  ids::NumberFormat format;
  const id_store::StoredCounter counter = counter_now(about, request.ns, format);
  id_store::StoredCounters store(config.id_store, process_sources().clock);
  const std::vector<const About*> rules{&about};
  const auto found = store.find(rules);
  if (!found) return refuse(request, found.error().reason);
  const auto its = std::ranges::find_if(*found, [&](const id_store::StoredCounter& each) {
    return each.exists() && each.spec.place == counter.spec.place;
  });
  const NextNumber next = its != found->end() ? next_of(*its) : first_of_new(store, counter);
  if (!next) return refuse(request, next.error());
  ids::Values values;
  append_from(*next, counter.spec.step, counter.spec.max, format, request.count, values);
  if (values.size() == 0) return refuse(request, ids::handed_out_up_to(counter.spec.max).reason);
  print(request, rule, values);
  say_whose();
  return ExitCode::ok;
}

/// Of ranges and of sequences without gaps: has the id store look, as for a start.
ExitCode print_next(const IdsRequest& request, config::Config config, std::size_t index) {
  const jobs::RuleOptions& options = request;
  jobs::BackfillRequest asked{options};
  asked.mode = jobs::BackfillRequest::Mode::dry_run;
  const jobs::StopSignals stop;
  jobs::BackfillRule rule(std::move(config), index, asked);
  ids::Values values;
  std::string why = rule.await_ready(stop);
  if (why.empty()) why = rule.next_values(request.count, values);
  if (!why.empty()) return rule.end(refuse(request, why));
  print(request, rule.rule(), values);
  say_whose();
  return rule.end(ExitCode::ok);
}

/// What stands before the quotes of a value of the rule, as mongosh writes it; nothing: it has
/// none.
std::optional<std::string> call_of(const rewrite::Rule& rule) {
  ids::Values sample;
  rule.strategy->append_samples(1, sample);
  if (sample.type() == bson::Type::string) return "";
  if (sample.type() == bson::Type::object_id) return "ObjectId(";
  if (sample.type() == bson::Type::int64) return "Long(";
  if (sample.type() != bson::Type::binary) return std::nullopt;
  const int subtype = sample[0][4];
  return subtype == 4 ? "UUID(" : "HexData(" + std::to_string(subtype) + ",";
}

/// What a value says that is written as mongosh writes those of the rule, whose `call` stands
/// before the quotes; nothing: it is not so written.
std::optional<std::string> unquoted(std::string_view text, std::string_view call) {
  if (!text.starts_with(call) || (!call.empty() && !text.ends_with(')'))) return std::nullopt;
  text.remove_prefix(call.size());
  if (!call.empty()) {
    text.remove_suffix(1);
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  }
  if (text.size() < 2 || text.front() != text.back()) return std::nullopt;
  if (text.front() != '"' && text.front() != '\'') return std::nullopt;
  // A string of JSON, which lacks \', but for the quotes.
  std::string json = "\"";
  for (std::size_t i = 1; i + 1 < text.size(); ++i) {
    const bool is_escape = text[i] == '\\' && i + 2 < text.size();
    if (text[i] == text.front() || (text[i] == '\\' && !is_escape)) return std::nullopt;
    if (is_escape && text[++i] != '\'') json += '\\';
    if (!is_escape && text[i] == '"') json += '\\';
    json += text[i];
  }
  boost::system::error_code failed;
  const boost::json::value parsed = boost::json::parse(json + '"', failed);
  if (failed) return std::nullopt;
  return std::string(parsed.get_string());
}

/// Prints what a value tells.
ExitCode print_meaning(const IdsRequest& request, const rewrite::Rule& rule) {
  const std::string& value = *request.decode;
  const std::string subject = "the rule for " + request.field + " in " + request.ns;
  if (rule.strategy->about().sequences.text) {
    return end_with(ExitCode::findings, subject +
                                            " has a template, whose values are not decoded: "
                                            "`verify` judges them");
  }
  ids::Decoded meaning = rule.strategy->decode(value);
  const auto call = call_of(rule);
  if (auto inside = meaning || !call ? std::nullopt : unquoted(value, *call)) {
    if (!call->empty()) boost::algorithm::to_lower(*inside);
    meaning = rule.strategy->decode(*inside);
  }
  if (!meaning) {
    return end_with(ExitCode::findings,
                    subject + " cannot have made " + in_quotes(value) + ": " + meaning.error());
  }
  Document document;
  document.add("ns", request.ns).add("field", request.field).add("strategy", rule.strategy_name);
  for (const auto& [name, text] : *meaning) {
    document.add(name, text);
    if (!request.as_json) std::cout << name << ' ' << text << '\n';
  }
  if (request.as_json) {
    std::cout << printable(id_store::mongo::json_of(document.bytes()), kWhole) << '\n';
  } else if (meaning->empty()) {
    tell("the rule can have made it; it tells nothing more");
  }
  std::cout << std::flush;
  return ExitCode::ok;
}

ExitCode print_ids(const IdsRequest& request) {
  auto opened = jobs::open_rule(request, ConfigFile::Print::faults);
  if (!opened) return opened.error();
  if (request.decode) return print_meaning(request, opened->rule());
  const About& about = opened->rule().strategy->about();
  ids::Values values;
  if (!is_numbered(about)) {
    opened->rule().strategy->append_samples(request.count, values);
    tell("samples: each document gets a value of its own");
  } else if (about.sequences.by_document()) {
    append_of_sample(about, request.count, values);
  } else {
    const bool is_looked_for = about.gapless || about.ranges;
    if (const ExitCode code = jobs::find_store(opened->file); code != ExitCode::ok) return code;
    if (is_looked_for) return print_next(request, std::move(opened->config()), opened->index);
    return print_counter(request, opened->config(), opened->rule());
  }
  print(request, opened->rule(), values);
  std::cout << std::flush;
  return ExitCode::ok;
}

}  // namespace

const Command kIds{
    "ids",
    "Print values that a rule would give",
    R"(Prints values that the rule would give, one a line, as mongosh writes them. None
is used up: the next numbers of a counter may go to others meanwhile.

Examples:   mongo-idproxy ids --ns shop.orders --field number
            mongo-idproxy ids --ns shop.orders --field code -n 3 --json
            mongo-idproxy ids --ns shop.orders --field number --decode R-001001)",
    {{0, "printed"},
     {1, "with --decode: the rule cannot have made the value, or it is not decoded"},
     {69, "a server does not answer or the rule is not ready"}},
    nullptr,
    [](CLI::App& options, std::string& config) -> Run {
      const auto request = std::make_shared<IdsRequest>();
      add_rule(options, *request, "The field, as its rule names it");
      add_value(options, "-n", request->count, "N", "How many values; 5 if not given")
          ->check(CLI::Range(1, 10'000));
      add_value(options, "--decode", request->decode, "VALUE",
                "Print what this value of the rule tells:\nits time, UUID or number");
      options.add_flag("--json", request->as_json, "Print a document of extended JSON");
      add_config(options, config);
      return on_file(request, print_ids);
    }};

}  // namespace idproxy::app::commands
