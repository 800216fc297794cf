"""What dependencies.py says of small trees."""

import pathlib
import tempfile
import unittest

import dependencies


def tree_of(files: dict[str, str]) -> dependencies.Tree:
    """Each file with its lines."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            path = pathlib.Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text + "\n")
        return dependencies.Tree(pathlib.Path(folder))


def include(*names: str) -> str:
    return "\n".join(f'#include "{name}"' for name in names)


class Modules(unittest.TestCase):
    def found(self, files: dict[str, str]) -> list[str]:
        return list(dependencies.faults(tree_of(files)))

    def test_a_module_may_not_include_one_above_it(self):
        self.assertEqual(self.found({
            "include/idproxy/wire/frame.hpp": "", "src/base/text.cpp": include("idproxy/wire/frame.hpp"),
        }), ["src/base/text.cpp: base may not include idproxy/wire/frame.hpp"])

    def test_nor_a_private_header_of_it(self):
        self.assertEqual(self.found({
            "src/wire/frame.hpp": "", "src/base/text.cpp": include("wire/frame.hpp"),
        }), ["src/base/text.cpp: base may not include wire/frame.hpp"])

    def test_a_module_may_include_what_its_row_allows(self):
        self.assertEqual(self.found({
            "include/idproxy/base/text.hpp": "", "src/wire/frame.cpp": include("idproxy/base/text.hpp"),
        }), [])

    def test_the_core_may_not_include_a_library_of_sockets(self):
        self.assertEqual(self.found({"src/wire/frame.cpp": "#include <boost/asio/io_context.hpp>"}),
                         ["src/wire/frame.cpp: the core may not include <boost/asio/io_context.hpp>"])

    def test_private_headers_of_bson_are_not_those_of_libbson(self):
        self.assertEqual(self.found({
            "src/bson/size.hpp": "", "src/bson/size.cpp": include("bson/size.hpp"),
            "src/bson/type.cpp": "#include <bson/bson.h>",
        }), ["src/bson/type.cpp: the core may not include <bson/bson.h>"])


    def test_nor_may_a_folder_of_a_module_include_one_above_it(self):
        files = {"src/app/state/health.hpp": "", "src/app/views/table.hpp": ""}
        self.assertEqual(self.found(files | {"src/app/views/table.cpp": include("app/state/health.hpp")}), [])
        self.assertEqual(self.found(files | {"src/app/state/health.cpp": include("app/views/table.hpp")}),
                         ["src/app/state/health.cpp: app/state may not include app/views/table.hpp"])

    def test_nor_the_folder_around_it(self):
        self.assertEqual(self.found({
            "src/app/state/health.hpp": "", "src/app/version.cpp": include("app/state/health.hpp"),
        }), ["src/app/version.cpp: app may not include app/state/health.hpp"])

    def test_a_folder_of_a_module_may_include_what_the_module_may(self):
        self.assertEqual(self.found({
            "include/idproxy/base/text.hpp": "", "src/app/state/health.cpp": include("idproxy/base/text.hpp"),
        }), [])
        self.assertEqual(self.found({
            "src/app/state/health.hpp": "", "src/net/pool.cpp": include("app/state/health.hpp"),
        }), ["src/net/pool.cpp: net may not include app/state/health.hpp"])


class Namespaces(unittest.TestCase):
    def found(self, file: str, namespace: str) -> list[str]:
        return list(dependencies.namespaces(tree_of({file: f"namespace {namespace} {{"})))

    def test_a_namespace_is_a_folder(self):
        self.assertEqual(self.found("src/net/pool.cpp", "idproxy::net"), [])
        self.assertEqual(self.found("include/idproxy/app/state/health.hpp", "idproxy::app::state"), [])
        self.assertEqual(self.found("src/app/state/health.cpp", "idproxy::app"), [
            "src/app/state/health.cpp: namespace idproxy::app must be idproxy::app::state"])
        self.assertEqual(self.found("src/net/pool.cpp", "idproxy::network"), [
            "src/net/pool.cpp: namespace idproxy::network must be idproxy::net"])

    def test_or_within_that_of_its_folder(self):
        self.assertEqual(self.found("src/net/tls.cpp", "idproxy::net::tls"), [])

    def test_what_another_one_has_may_be_named(self):
        files = {"src/net/pool.hpp": "namespace idproxy {\nclass Text;\n}\n\nnamespace idproxy::net {"}
        self.assertEqual(list(dependencies.namespaces(tree_of(files))), [])

    def test_base_is_in_that_of_the_program(self):
        self.assertEqual(self.found("src/base/text.cpp", "idproxy"), [])


class OwnHeaders(unittest.TestCase):
    def test_a_source_includes_its_header_first(self):
        files = {"src/net/pool.hpp": "", "src/net/tcp.hpp": "",
                 "src/net/pool.cpp": include("net/tcp.hpp", "net/pool.hpp")}
        self.assertEqual(list(dependencies.own_headers(tree_of(files))),
                         ['src/net/pool.cpp: its first include must be "net/pool.hpp"'])

    def test_of_two_headers_either_may_be_the_first(self):
        for first in ("app/run.hpp", "idproxy/app/run.hpp"):
            files = {"src/app/run.hpp": "", "include/idproxy/app/run.hpp": "",
                     "src/app/run.cpp": include(first)}
            self.assertEqual(list(dependencies.own_headers(tree_of(files))), [])


class Places(unittest.TestCase):
    def found(self, files: dict[str, str]) -> list[str]:
        return list(dependencies.places(tree_of(files)))

    def test_a_face_is_what_another_module_includes(self):
        self.assertEqual(self.found({
            "include/idproxy/base/text.hpp": "", "src/wire/frame.cpp": include("idproxy/base/text.hpp"),
        }), [])

    def test_or_the_program(self):
        self.assertEqual(self.found({
            "include/idproxy/app/app.hpp": "", "src/main.cpp": include("idproxy/app/app.hpp"),
        }), [])

    def test_or_another_face(self):
        self.assertEqual(self.found({
            "include/idproxy/base/text.hpp": "", "src/wire/frame.cpp": include("idproxy/base/all.hpp"),
            "include/idproxy/base/all.hpp": include("idproxy/base/text.hpp"),
        }), [])

    def test_what_only_the_module_and_tests_need_is_none(self):
        self.assertEqual(self.found({
            "include/idproxy/base/text.hpp": "", "src/base/text.cpp": include("idproxy/base/text.hpp"),
            "tests/unit/wire/frame_test.cpp": include("idproxy/base/text.hpp"),
        }), ["include/idproxy/base/text.hpp: no other module needs it: "
             'move it to src/base, and include it as "base/text.hpp"'])

    def test_headers_that_need_only_each_other_are_none(self):
        self.assertEqual(len(self.found({
            "include/idproxy/base/text.hpp": "",
            "include/idproxy/base/all.hpp": include("idproxy/base/text.hpp"),
        })), 2)

    def test_a_private_header_that_another_module_includes_is_a_face(self):
        self.assertEqual(self.found({
            "src/base/text.hpp": "", "src/wire/frame.cpp": include("base/text.hpp"),
        }), ["src/base/text.hpp: another module or a face includes it: "
             'move it to include/idproxy/base, and include it as "idproxy/base/text.hpp"'])

    def test_a_private_header_that_a_face_includes_is_one_too(self):
        self.assertEqual(self.found({
            "src/base/text.hpp": "", "include/idproxy/base/all.hpp": include("base/text.hpp"),
            "src/wire/frame.cpp": include("idproxy/base/all.hpp"),
        }), ["src/base/text.hpp: another module or a face includes it: "
             'move it to include/idproxy/base, and include it as "idproxy/base/text.hpp"'])


class Forms(unittest.TestCase):
    def found(self, files: dict[str, str]) -> list[str]:
        return list(dependencies.forms(tree_of(files)))

    def test_a_private_header_has_its_module_before_it(self):
        for file in ("src/net/pool.cpp", "tests/unit/net/pool_test.cpp"):
            self.assertEqual(self.found({"src/net/pool.hpp": "", file: include("net/pool.hpp")}), [])
            self.assertEqual(self.found({"src/net/pool.hpp": "", file: include("pool.hpp")}),
                             [f'{file}: "pool.hpp" must be "net/pool.hpp"'])

    def test_every_other_form_is_a_fault(self):
        for form in ('"../net/pool.hpp"', '"idproxy/net/pool.hpp"', "<net/pool.hpp>"):
            self.assertEqual(
                self.found({"src/net/pool.hpp": "", "src/net/tcp.cpp": f"#include {form}"}),
                [f'src/net/tcp.cpp: {form} must be "net/pool.hpp"'])

    def test_so_it_is_for_a_face(self):
        for form in ("pool.hpp", "net/pool.hpp"):
            self.assertEqual(
                self.found({"include/idproxy/net/pool.hpp": "", "src/net/tcp.cpp": include(form)}),
                [f'src/net/tcp.cpp: "{form}" must be "idproxy/net/pool.hpp"'])

    def test_headers_of_tests_are_included_as_they_lie(self):
        self.assertEqual(self.found({
            "src/net/pool.hpp": "", "tests/unit/net/pool.hpp": "",
            "tests/unit/net/pool_test.cpp": include("pool.hpp", "unit/net/pool.hpp"),
        }), [])

    def test_other_libraries_have_headers_of_the_same_names(self):
        self.assertEqual(self.found({
            "src/net/pool.hpp": "", "src/net/tcp.cpp": "#include <boost/pool.hpp>",
        }), [])


class Cycles(unittest.TestCase):
    def test_components_that_need_each_other_are_found(self):
        files = {"src/net/pool.hpp": "", "src/net/pool.cpp": include("net/pool.hpp", "net/tcp.hpp"),
                 "src/net/tcp.hpp": "", "src/net/tcp.cpp": include("net/tcp.hpp", "net/pool.hpp")}
        found, = dependencies.cycles(tree_of(files))
        self.assertIn("net/pool <- net/tcp", found)

    def test_a_face_and_a_private_header_can_be_in_one_cycle(self):
        files = {"include/idproxy/net/pool.hpp": include("idproxy/net/tcp.hpp"),
                 "include/idproxy/net/tcp.hpp": "", "src/net/end.hpp": include("idproxy/net/pool.hpp"),
                 "src/net/tcp.cpp": include("idproxy/net/tcp.hpp", "net/end.hpp")}
        self.assertEqual(len(list(dependencies.cycles(tree_of(files)))), 1)

    def test_one_direction_is_none(self):
        files = {"src/net/pool.hpp": "", "src/net/pool.cpp": include("net/pool.hpp", "net/tcp.hpp"),
                 "src/net/tcp.hpp": "", "src/net/tcp.cpp": include("net/tcp.hpp")}
        self.assertEqual(list(dependencies.cycles(tree_of(files))), [])


class SingleUsers(unittest.TestCase):
    def found(self, files: dict[str, str]) -> list[str]:
        return list(dependencies.single_users(tree_of(files)))

    POOL = {"src/net/pool.hpp": "class Later;\n\nclass Pool final : public Base<\n    int> {\n};\n",
            "src/net/pool.cpp": include("net/pool.hpp"),
            "tests/unit/net/pool_test.cpp": include("net/pool.hpp")}

    def test_own_source_and_tests_do_not_count(self):
        self.assertEqual(self.found(self.POOL), ["src/net/pool.hpp: Pool: nobody"])
        self.assertEqual(self.found(self.POOL | {"src/net/tcp.cpp": include("net/pool.hpp")}),
                         ["src/net/pool.hpp: Pool: src/net/tcp.cpp"])

    def test_two_users_are_not_listed(self):
        self.assertEqual(self.found(self.POOL | {"src/net/tcp.cpp": include("net/pool.hpp"),
                                                 "src/net/udp.cpp": include("net/pool.hpp")}), [])

    def test_a_header_of_functions_is_not_listed(self):
        self.assertEqual(self.found({"src/net/pool.hpp": "class Later;\nint size(Later&);",
                                     "src/net/tcp.cpp": include("net/pool.hpp")}), [])


if __name__ == "__main__":
    unittest.main()
