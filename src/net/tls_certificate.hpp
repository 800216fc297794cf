#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "net/openssl.hpp"

/// Reads certificates. They may come from peers, so texts are limited in length and control
/// characters are escaped.
namespace idproxy::net::tls {

/// The name as in RFC 2253, but with UTF-8 unescaped: "CN=proxy,O=Example". At most 200 bytes.
std::string name_text(const X509_NAME* name);
/// name_text() of the certificate's subject.
std::string subject_text(const X509* certificate);

/// The names and addresses that the certificate is for, as OpenSSL compares them: those of the
/// subjectAltName, or else the common name. "a.example, 10.0.0.1"; at most 200 bytes.
std::string names_text(const X509* certificate);

std::chrono::sys_seconds not_before(const X509* certificate);
std::chrono::sys_seconds not_after(const X509* certificate);
/// "2026-01-31 12:00:00 UTC"
std::string time_text(std::chrono::sys_seconds time);

/// The subject's O, OU and DC attributes, each with its type, sorted: "O=Example". mongod takes a
/// client for a member of its cluster if these equal those of its own certificate and are not empty
/// (MongoDB manual, "Security > X.509", "Member Certificate Requirements"; since 4.2 in any order).
/// A peer cannot see whether net.tls.clusterAuthX509 (7.0) or tlsX509ClusterAuthDNOverride differ.
std::vector<std::string> cluster_attributes(const X509* certificate);

}  // namespace idproxy::net::tls
