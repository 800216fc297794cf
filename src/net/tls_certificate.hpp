#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "openssl.hpp"

/// What is read from certificates. They may come from peers: texts are bounded, control characters
/// are escaped.
namespace idproxy::net::tls {

/// RFC 2253 with UTF-8 as it is: "CN=proxy,O=Example". At most 200 bytes.
std::string name_text(const X509_NAME* name);
/// Of the one that it certifies.
std::string subject_text(const X509* certificate);

/// The names and addresses that it is for, "a.example, 10.0.0.1": its subjectAltName, or, where
/// that has none, the common name, as OpenSSL compares them. At most 200 bytes.
std::string names_text(const X509* certificate);

std::chrono::sys_seconds not_before(const X509* certificate);
std::chrono::sys_seconds not_after(const X509* certificate);
/// "2026-01-31 12:00:00 UTC"
std::string time_text(std::chrono::sys_seconds time);

/// All values of O, OU and DC of the subject, each with its kind, sorted. mongod takes a client for
/// a member of its cluster if it has the same ones as mongod itself and at least one (MongoDB
/// manual, "Security > X.509", "Member Certificate Requirements"; since 4.2 in any order). Where
/// net.tls.clusterAuthX509 (7.0) or tlsX509ClusterAuthDNOverride say otherwise, no peer can know.
std::vector<std::string> cluster_attributes(const X509* certificate);

}  // namespace idproxy::net::tls
