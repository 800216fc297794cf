#include "idproxy/rewrite/insert.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <span>
#include <string_view>
#include <utility>

#include "idproxy/rewrite/document_fields.hpp"
#include "idproxy/rewrite/zero_value.hpp"

namespace idproxy::rewrite {
namespace {

std::uint32_t narrow(std::size_t offset) {
  return static_cast<std::uint32_t>(offset);
}

std::string_view type_name(bson::Type type) {
  switch (type) {
    case bson::Type::array:
      return "array";
    case bson::Type::string:
      return "string";
    case bson::Type::null:
      return "null";
    case bson::Type::object_id:
      return "objectId";
    case bson::Type::boolean:
      return "bool";
    case bson::Type::date:
      return "date";
    case bson::Type::binary:
      return "binData";
    case bson::Type::number_double:
    case bson::Type::int32:
    case bson::Type::int64:
    case bson::Type::decimal128:
      return "number";
    default:
      return "scalar";
  }
}

/// Why the document gets no value of this rule; empty: it gets one.
std::string why_no_sequence(const Assignment& target, std::span<const ids::FieldValue> fields) {
  if (target.sequences == nullptr) return {};
  const std::string why = target.sequences->refusal(fields);
  if (why.empty()) return {};
  return "mongo-idproxy: no value for field '" + target.rule->field + "': " + why;
}

/// The fields that determine the document's sequence. False if one of their paths leads through a
/// malformed document.
bool read_fields(const ids::Sequences* sequences, Bytes document,
                 std::vector<ids::FieldValue>& out) {
  out.clear();
  if (sequences == nullptr) return true;
  for (const std::string& field : sequences->fields()) {
    const auto value = field_at(document, field);
    if (!value) return false;
    out.push_back(*value);
  }
  return true;
}

/// True if a driver may have made the ObjectId for a document that is inserted `now`.
bool is_recent(Bytes object_id, std::chrono::seconds now, const Rule& rule) {
  const auto made = std::chrono::seconds(boost::endian::load_big_u32(object_id.data()));
  return std::chrono::abs(now - made) <= rule.driver_window;
}

std::string cannot_create(const std::string& field, const bson::Element& in_its_way) {
  return "mongo-idproxy: cannot create field '" + field + "': '" + std::string(in_its_way.key) +
         "' is of type " + std::string(type_name(in_its_way.type)) + ", not object";
}

}  // namespace

PlanFields::PlanFields(const std::shared_ptr<const Plan>& of) : plan(of) {
  const Plan& assignments = *of;
  has_sequences = std::ranges::any_of(
      assignments, [](const Assignment& each) { return each.sequences != nullptr; });
  const bool has_conditions = std::ranges::any_of(
      assignments, [](const Assignment& each) { return !each.rule->when.empty(); });
  const bool is_simple = !has_sequences && !has_conditions;
  if (!is_simple || assignments.size() > bson::FieldFinder::kMost) return;
  std::array<std::string_view, bson::FieldFinder::kMost> first;
  std::array<std::string_view, bson::FieldFinder::kMost> second;
  for (std::size_t i = 0; i < assignments.size(); ++i) {
    const Assignment& each = assignments[i];
    const std::uint32_t bit = std::uint32_t{1} << i;
    first[i] = each.path.front();
    second[i] = each.path[each.path.size() > 1 ? 1 : 0];
    all |= bit;
    const std::size_t names = each.path.size();
    if (names == 1) top_level |= bit;
    if (each.rule->assign == Assign::missing && names == 1) stays |= bit;
    if (each.rule->assign == Assign::missing && names == 2) second_level |= bit;
    if (each.is_id()) front |= bit;
    if (each.is_id() && !each.implied) ids |= bit;
  }
  first_names.emplace(std::span(first).first(assignments.size()));
  if (top_level != all) second_names.emplace(std::span(second).first(assignments.size()));
}

PlanFields& RecentPlans::of(const std::shared_ptr<const Plan>& plan) {
  constexpr std::size_t kMost = 16;
  const auto same = [&](const std::unique_ptr<PlanFields>& fields) {
    return !fields->plan.owner_before(plan) && !plan.owner_before(fields->plan);
  };
  auto found = std::ranges::find_if(plans_, same);
  if (found == plans_.end()) {
    if (plans_.size() == kMost) plans_.pop_back();
    plans_.push_back(std::make_unique<PlanFields>(plan));
    found = plans_.end() - 1;
  }
  std::rotate(plans_.begin(), found, found + 1);
  return *plans_.front();
}

/// `plan`: of the namespace; its assignments stand in GivenValues from `first` on.
void InsertRewriter::begin(const WriteRequest& write, const std::shared_ptr<const Plan>& plan,
                           std::size_t first) {
  message_ = write.message.message();
  now_ = write.now;
  assignments_ = plan.get();
  first_ = first;
  edits_.clear();
  records_.clear();
  driver_made_.assign(plan->size(), 0);
  leaves_zero_ = nullptr;
  plan_ = &plans_.of(plan);
}

ScanResult InsertRewriter::scan(const WriteRequest& insert, GivenValues& given) {
  begin(insert, insert.plan, 0);
  given.wanted.assign(insert.plan->size(), 0);
  if (plan_->has_sequences) given.sequences.resize(insert.plan->size());
  ScanResult result;
  if (!scan_documents(Statements(insert.command), 0, result, given)) {
    given = {};
    result = {};
    return result;
  }
  const bool nothing = records_.empty() && (result.statements == 0 || !insert.plan->reserves());
  if (nothing || result.kind == ScanResult::Kind::failed) return result;
  given.values.resize(insert.plan->size());
  result.size = insert.message.message().size();
  for (const Edit& edit : edits_) result.size -= edit.kind == EditKind::length ? 0 : edit.remove;
  result.kind = ScanResult::Kind::assigned;
  return result;
}

/// `first`: the index of the first document. Returns false if they are malformed or too many, which
/// mongod refuses.
bool InsertRewriter::scan_documents(Statements documents, std::int32_t first, ScanResult& result,
                                    GivenValues& values) {
  std::int32_t index = first;
  Bytes document;
  while (documents.next(document)) {
    if (static_cast<std::size_t>(index) == kMaxBatch) return false;
    const std::size_t first_edit = edits_.size();
    Record record{narrow(offset(document.data())), narrow(document.size())};
    if (!look_at(document, record)) return false;
    if (refusal_) {
      refusal_->index = index;
      result.refused.push_back(*std::exchange(refusal_, std::nullopt));
    }
    if (record.missing != 0 || edits_.size() > first_edit) {
      record.edits = narrow(edits_.size());
      records_.push_back(record);
      give(index, record.missing, first_edit, values);
      if (values.given.size() > kMostValues) {
        result.kind = ScanResult::Kind::failed;
        result.error = too_large();
        return true;
      }
    }
    ++index;
  }
  if (documents.malformed()) return false;
  result.statements = static_cast<std::size_t>(index - first);
  for (std::size_t i = 0; i < assignments_->size(); ++i) {
    if (index > first && driver_made_[i] == result.statements) {
      result.driver_made = &(*assignments_)[i];
    }
  }
  if (leaves_zero_ != nullptr) result.leaves_zero = leaves_zero_;
  return true;
}

bool InsertRewriter::scan_one(const WriteRequest& write, const BulkNamespace& ns, Bytes document,
                              std::int32_t statement, GivenValues& given, ScanResult& result) {
  begin(write, ns.plan, ns.first);
  if (plan_->has_sequences) given.sequences.resize(write.plan->size());
  return scan_documents(Statements(document, false), statement, result, given);
}

/// Notes which values the document gets.
void InsertRewriter::give(std::int32_t statement, std::uint32_t missing, std::size_t first_edit,
                          GivenValues& values) {
  std::vector<Given>& given = values.given;
  const auto add = [&](std::size_t assignment) {
    const std::size_t at = first_ + assignment;
    given.push_back({statement, static_cast<std::uint16_t>(at), narrow(values.wanted[at]++)});
  };
  for (; missing != 0; missing &= missing - 1) {
    add(static_cast<std::size_t>(std::countr_zero(missing)));
  }
  if (edits_.size() == first_edit) return;
  const std::size_t first_given = given.size();
  for (std::size_t i = first_edit; i < edits_.size(); ++i) {
    if (edits_[i].has_value()) add(edits_[i].assignment);
  }
  // edits_ is ordered by position, `given` by assignment.
  if (given.size() > first_given + 1) {
    std::ranges::sort(given.begin() + static_cast<std::ptrdiff_t>(first_given), given.end(), {},
                      &Given::assignment);
  }
  if (!plan_->has_sequences) return;
  for (std::size_t i = first_given; i < given.size(); ++i) {
    const std::size_t its = given[i].assignment - first_;
    const ids::Sequences* sequences = (*assignments_)[its].sequences.get();
    if (sequences == nullptr) continue;
    values.sequences[given[i].assignment].add_value(*sequences, fields_[its], values.opening);
  }
}

/// Finds the changes that the document needs: record.missing, or new edits in edits_. Most
/// documents are read in one walk, and a sub-document in another; only if a value may be replaced,
/// or if paths lead to several places, each path is followed on its own. False if the document is
/// malformed.
bool InsertRewriter::look_at(Bytes document, Record& record) {
  // Already too large: mongod answers with its own error.
  if (static_cast<std::int64_t>(document.size()) > bson::kMaxUserDocument) return true;
  if (!plan_->first_names) return plan_edits(document);
  // If all existing values stay, the walk can end once each field has been found.
  using Until = bson::FieldFinder::Until;
  const Until until = plan_->stays == plan_->all ? Until::all_found : Until::the_end;
  if (!plan_->first_names->find(document, until, found_, places_)) return false;
  // Each field either stays as it is, or becomes a new element of the document itself?
  const std::uint32_t stay = found_.there & plan_->stays;
  const std::uint32_t lacks = ~found_.there & plan_->top_level;
  const std::uint32_t below = plan_->all & ~(stay | lacks);
  if (below == 0) {
    record.missing = lacks;
    record.parent = record.at;
  } else {
    const bson::Element* parent = lacks == 0 ? common_parent(below) : nullptr;
    if (parent == nullptr) return plan_edits(document);
    if (!plan_->second_names->find(parent->value, Until::the_end, below_, below_places_))
      return false;
    record.missing = below & ~below_.there;
    record.parent = narrow(offset(parent->value.data()));
    note_kept(below & below_.there, below_places_);
  }
  note_kept(stay, places_);
  return true;
}

/// The sub-document that holds the fields of all these assignments, or gets them as new elements.
/// Null if it is not as simple as that.
const bson::Element* InsertRewriter::common_parent(std::uint32_t below) const {
  const std::uint32_t once = found_.there & ~found_.twice & plan_->second_level;
  if ((below & ~once) != 0) return nullptr;
  const auto place = [&](std::uint32_t bits) -> const bson::Element& {
    return places_[static_cast<std::size_t>(std::countr_zero(bits))];
  };
  const bson::Element& parent = place(below);
  if (parent.type != bson::Type::document) return nullptr;
  for (std::uint32_t left = below & (below - 1); left != 0; left &= left - 1) {
    if (place(left).begin != parent.begin) return nullptr;
  }
  return &parent;
}

/// `kept`: assignments whose field has a value that stays, at the place of `places`.
void InsertRewriter::note_kept(std::uint32_t kept, const bson::FieldFinder::Places& places) {
  for (; kept != 0; kept &= kept - 1) {
    const auto i = static_cast<std::size_t>(std::countr_zero(kept));
    const bool is_id = places[i].type == bson::Type::object_id;
    if (is_id || is_zero(places[i])) note_kept(places[i], i);
  }
}

/// Notes values that the rule leaves although its user may expect otherwise; the log has them once.
void InsertRewriter::note_kept(const bson::Element& value, std::size_t assignment) {
  const Assignment& target = (*assignments_)[assignment];
  if (target.implied) return;
  if (leaves_zero(target.rule->assign, value)) leaves_zero_ = &target;
  if (value.type != bson::Type::object_id || !target.is_id()) return;
  if (is_recent(value.value, now_, *target.rule)) ++driver_made_[assignment];
}

/// Notes the document's edits. Returns false if it is malformed.
bool InsertRewriter::plan_edits(Bytes document) {
  if (plan_->has_sequences) fields_.resize(assignments_->size());
  const std::size_t first_edit = edits_.size();
  Site& site = site_;
  std::size_t changed = 0;
  bool gets_id = false;
  for (std::size_t i = 0; i < assignments_->size(); ++i) {
    if ((*assignments_)[i].implied && gets_id) continue;
    const auto gets = all_hold((*assignments_)[i].rule->when, document);
    if (!gets) return false;
    if (!*gets) continue;
    if (!locate(document, i, site)) return false;
    const bool changes = site.found != Site::Found::present || replaces(site, i);
    if (!changes) continue;
    const Assignment& target = (*assignments_)[i];
    const std::string& field = target.rule->field;
    if (site.found == Site::Found::blocked) {
      refuse(document, first_edit, ErrorCode::path_not_viable, cannot_create(field, site.element));
      return true;
    }
    if (site.ambiguous) {
      refuse(document, first_edit, ErrorCode::bad_value,
             "mongo-idproxy: a name on the path '" + field +
                 "' occurs twice in the document: no value can be assigned");
      return true;
    }
    if (plan_->has_sequences) {
      if (!read_fields(target.sequences.get(), document, fields_[i])) return false;
      std::string why = why_no_sequence(target, fields_[i]);
      if (!why.empty()) {
        refuse(document, first_edit, ErrorCode::bad_value, std::move(why));
        return true;
      }
    }
    ++changed;
    gets_id = gets_id || (*assignments_)[i].path.front() == "_id";
    add_lengths(site, first_edit);
    plan_edit(site, i);
    if (site.found == Site::Found::present) keep_driver_id(document, site, i);
  }
  // Those of one change are in order already.
  if (changed > 1) sort_edits(first_edit);
  return true;
}

/// Sorts by position; at the same position, `_id` comes first, then other new elements in file
/// order, then kept driver ids, then replacements. Insertion sort, which is stable, because a
/// document has only a handful of edits.
void InsertRewriter::sort_edits(std::size_t first_edit) {
  const auto rank = [&](const Edit& edit) {
    const bool front = edit.kind == EditKind::element && (*assignments_)[edit.assignment].is_id();
    const int kind = front ? 0 : edit.kind == EditKind::element ? 1 : edit.remove == 0 ? 2 : 3;
    return std::pair(edit.at, kind);
  };
  const auto first = edits_.begin() + static_cast<std::ptrdiff_t>(first_edit);
  for (auto edit = first; edit != edits_.end(); ++edit) {
    const auto place = std::upper_bound(
        first, edit, *edit, [&](const Edit& a, const Edit& b) { return rank(a) < rank(b); });
    std::rotate(place, edit, edit + 1);
  }
}

/// Returns false if a document on the path is malformed.
bool InsertRewriter::locate(Bytes document, std::size_t assignment, Site& site) {
  const auto& path = (*assignments_)[assignment].path;
  site.parents.assign(1, document);
  site.ambiguous = false;
  for (std::size_t depth = 0;; ++depth) {
    bool found = false;
    const bool at_once = plan_->first_names && depth < 2;
    if (at_once ? !find_at_once(assignment, depth, site, found)
                : !follow(assignment, depth, site, found)) {
      return false;
    }
    site.found = found ? Site::Found::present : Site::Found::absent;
    if (!found || depth + 1 == path.size()) return true;
    if (site.element.type != bson::Type::document) {
      site.found = Site::Found::blocked;
      return true;
    }
    site.parents.push_back(site.element.value);
  }
}

/// Looks for the path's name at `depth` in site.parents.back(). Returns false if that is malformed.
bool InsertRewriter::follow(std::size_t assignment, std::size_t depth, Site& site, bool& found) {
  const auto& path = (*assignments_)[assignment].path;
  const bool only_missing = (*assignments_)[assignment].rule->assign == Assign::missing;
  bson::Elements elements(site.parents.back());
  while (const auto element = elements.next()) {
    if (element->key != path[depth]) continue;
    site.ambiguous = site.ambiguous || found;
    if (found) continue;
    found = true;
    site.element = *element;
    // Nothing that follows can change that this value stays.
    if (only_missing && depth + 1 == path.size()) return true;
  }
  return !elements.malformed();
}

/// The same with what first_names has found in the document, or with second_names one level below.
bool InsertRewriter::find_at_once(std::size_t assignment, std::size_t depth, Site& site,
                                  bool& found) {
  const Assignment& target = (*assignments_)[assignment];
  if (depth > 0 &&
      !plan_->second_names->find(site.parents.back(), bson::FieldFinder::Until::the_end, below_,
                                 below_places_)) {
    return false;
  }
  const bson::FieldFinder::Found& there = depth == 0 ? found_ : below_;
  found = (there.there >> assignment & 1) != 0;
  if (!found) return true;
  const bool stays = target.rule->assign == Assign::missing && depth + 1 == target.path.size();
  site.ambiguous = site.ambiguous || (!stays && (there.twice >> assignment & 1) != 0);
  site.element = (depth == 0 ? places_ : below_places_)[assignment];
  return true;
}

bool InsertRewriter::replaces(const Site& site, std::size_t assignment) {
  const Rule& rule = *(*assignments_)[assignment].rule;
  if (rewrite::replaces(rule.assign, site.element)) return true;
  const bool made = rule.assign == Assign::driver && site.element.type == bson::Type::object_id &&
                    is_recent(site.element.value, now_, rule);
  if (!made) note_kept(site.element, assignment);
  return made;
}

void InsertRewriter::plan_edit(const Site& site, std::size_t assignment) {
  const Bytes parent = site.parents.back();
  Edit edit{};
  edit.assignment = static_cast<std::uint16_t>(assignment);
  edit.depth = static_cast<std::uint8_t>(site.depth());
  if (site.found == Site::Found::present) {
    edit.kind = EditKind::replacement;
    edit.at = narrow(offset(site.element.begin));
    edit.remove = narrow(offset(site.element.end())) - edit.at;
  } else {
    edit.kind = EditKind::element;
    const bool front = (*assignments_)[assignment].is_id();
    edit.at = narrow(offset(parent.data()) + (front ? 4 : parent.size() - 1));
  }
  edits_.push_back(edit);
}

void InsertRewriter::keep_driver_id(Bytes document, const Site& site, std::size_t assignment) {
  const std::string& name = (*assignments_)[assignment].rule->keep_driver_id;
  if (name.empty() || site.element.type != bson::Type::object_id) return;
  if (bson::find(document, name)) return;
  edits_.push_back({narrow(offset(document.data()) + document.size() - 1), 0,
                    narrow(offset(site.element.value.data())),
                    static_cast<std::uint16_t>(assignment), 0, EditKind::driver_id});
}

/// Replaces the document as a whole, in place of its edits so far.
void InsertRewriter::refuse(Bytes document, std::size_t first_edit, ErrorCode code,
                            std::string why) {
  refusal_ = {0, code, std::move(why)};
  edits_.resize(first_edit);
  edits_.push_back(
      {narrow(offset(document.data())), narrow(document.size()), 0, 0, 0, EditKind::refusal});
}

/// Adds an edit for the length of each document around a change, unless there is one already.
void InsertRewriter::add_lengths(const Site& site, std::size_t first_edit) {
  for (const Bytes parent : site.parents) {
    const auto at = narrow(offset(parent.data()));
    const bool there = std::any_of(
        edits_.begin() + static_cast<std::ptrdiff_t>(first_edit), edits_.end(),
        [&](const Edit& edit) { return edit.kind == EditKind::length && edit.at == at; });
    if (!there) {
      edits_.push_back({at, 4, at + narrow(parent.size()), 0, 0, EditKind::length});
    }
  }
}

}  // namespace idproxy::rewrite
