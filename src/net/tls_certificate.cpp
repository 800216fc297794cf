#include "net/tls_certificate.hpp"

#include <arpa/inet.h>
#include <openssl/asn1.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "idproxy/base/owned.hpp"
#include "idproxy/base/time_zone.hpp"

namespace idproxy::net::tls {
namespace {

constexpr std::size_t kLongestText = 200;

/// Does not cut a UTF-8 character in two.
std::string shortened(std::string text) {
  if (text.size() <= kLongestText) return text;
  constexpr std::string_view kMore = "...";
  std::size_t end = kLongestText - kMore.size();
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end).append(kMore);
}

std::string contents(BIO* memory) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(memory, &data);
  return size > 0 ? std::string(data, static_cast<std::size_t>(size)) : std::string();
}

std::string escaped(const ASN1_STRING* text) {
  const OwnedBio memory(BIO_new(BIO_s_mem()));
  constexpr unsigned long kFlags = ASN1_STRFLGS_ESC_CTRL | ASN1_STRFLGS_UTF8_CONVERT;
  ASN1_STRING_print_ex(memory.get(), text, kFlags);
  return contents(memory.get());
}

std::string address_text(const ASN1_OCTET_STRING* address) {
  const int family = ASN1_STRING_length(address) == 4 ? AF_INET : AF_INET6;
  if (family == AF_INET6 && ASN1_STRING_length(address) != 16) return "?";
  std::array<char, INET6_ADDRSTRLEN> text{};
  inet_ntop(family, ASN1_STRING_get0_data(address), text.data(), text.size());
  return text.data();
}

void add(std::string& list, const std::string& name) {
  // Do not format more than can be shown: a peer may send thousands of names.
  if (list.size() > kLongestText) return;
  if (!list.empty()) list += ", ";
  list += name;
}

std::string common_names(const X509* certificate) {
  std::string list;
  const X509_NAME* subject = X509_get_subject_name(certificate);
  int at = -1;
  while ((at = X509_NAME_get_index_by_NID(subject, NID_commonName, at)) >= 0) {
    add(list, escaped(X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at))));
  }
  return list;
}

std::chrono::sys_seconds time_of(const ASN1_TIME* time) {
  std::tm parts{};
  if (ASN1_TIME_to_tm(time, &parts) != 1) return {};
  return std::chrono::sys_seconds(std::chrono::seconds(timegm(&parts)));
}

}  // namespace

std::string name_text(const X509_NAME* name) {
  const OwnedBio memory(BIO_new(BIO_s_mem()));
  constexpr unsigned long kFlags =
      XN_FLAG_RFC2253 & ~static_cast<unsigned long>(ASN1_STRFLGS_ESC_MSB);
  X509_NAME_print_ex(memory.get(), name, 0, kFlags);
  return shortened(contents(memory.get()));
}

std::string subject_text(const X509* certificate) {
  return name_text(X509_get_subject_name(certificate));
}

std::string names_text(const X509* certificate) {
  using Names = Owned<GENERAL_NAMES, GENERAL_NAMES_free>;
  const Names names(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  std::string list;
  bool has_dns_name = false;
  for (int i = 0; names && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type == GEN_DNS) add(list, escaped(name->d.dNSName));
    if (name->type == GEN_IPADD) add(list, address_text(name->d.iPAddress));
    has_dns_name = has_dns_name || name->type == GEN_DNS;
  }
  if (!has_dns_name) {
    const std::string common = common_names(certificate);
    // OpenSSL compares addresses with the subjectAltName only.
    in6_addr address{};
    const bool is_address = ::inet_pton(AF_INET, common.c_str(), &address) == 1 ||
                            ::inet_pton(AF_INET6, common.c_str(), &address) == 1;
    if (!common.empty() && !is_address) add(list, common);
  }
  return shortened(std::move(list));
}

std::chrono::sys_seconds not_before(const X509* certificate) {
  return time_of(X509_get0_notBefore(certificate));
}

std::chrono::sys_seconds not_after(const X509* certificate) {
  return time_of(X509_get0_notAfter(certificate));
}

std::string time_text(std::chrono::sys_seconds time) {
  return utc_text("%E4Y-%m-%d %H:%M:%S UTC", time.time_since_epoch());
}

std::vector<std::string> cluster_attributes(const X509* certificate) {
  std::vector<std::string> attributes;
  const X509_NAME* subject = X509_get_subject_name(certificate);
  for (int i = 0; i < X509_NAME_entry_count(subject); ++i) {
    const X509_NAME_ENTRY* entry = X509_NAME_get_entry(subject, i);
    const int kind = OBJ_obj2nid(X509_NAME_ENTRY_get_object(entry));
    if (kind != NID_organizationName && kind != NID_organizationalUnitName &&
        kind != NID_domainComponent) {
      continue;
    }
    attributes.push_back(std::string(OBJ_nid2sn(kind)) + "=" +
                         escaped(X509_NAME_ENTRY_get_data(entry)));
  }
  std::sort(attributes.begin(), attributes.end());
  return attributes;
}

}  // namespace idproxy::net::tls
