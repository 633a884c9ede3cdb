package daemon

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// law is every edge that may be: a package to what of ours it may import. A
// family of models is written once, as models/*. An edge that is not listed
// fails the build; so does a package.
var law = map[string]string{
	// The daemon imports everything pure; nothing imports it but its main.
	"daemon":           "daemon/bus daemon/config daemon/journal daemon/lifecycle daemon/supervise ipc ipc/server ipc/socket models/store runtime/turn runtime/wire",
	"daemon/ingotd":    "daemon",
	"daemon/ingot":     "daemon/ingot/cli",
	"daemon/ingot/cli": "ipc ipc/client ipc/socket runtime/turn launchd installer",
	"daemon/bus":       "ipc",
	"daemon/config":    "runtime/turn",
	"daemon/journal":   "runtime/turn runtime/wire",
	"daemon/lifecycle": "runtime/turn runtime/wire",
	"daemon/supervise": "daemon/lifecycle runtime/turn runtime/wire",
	"daemon/e2e":       "",

	// A runner without a model, for tests.
	"daemon/fakerunner":                   "daemon/supervise runtime/turn runtime/wire",
	"daemon/fakerunner/ingot-fake-runner": "daemon/fakerunner",

	// The language meets the runtime in the daemon alone.
	"ipc":                   "runtime/turn",
	"ipc/frame":             "",
	"ipc/socket":            "",
	"ipc/server":            "ipc ipc/frame ipc/socket runtime/turn",
	"ipc/server/servertest": "ipc ipc/server runtime/turn",
	"ipc/client":            "ipc ipc/frame ipc/socket runtime/turn",
	"ipc/openai":            "ipc ipc/server runtime/turn",
	"ipc/anthropic":         "ipc ipc/server runtime/turn",

	"runtime/turn":                     "",
	"runtime/wire":                     "runtime/turn",
	"runtime/governor":                 "runtime/turn",
	"runtime/sample":                   "runtime/turn",
	"runtime/step":                     "runtime/sample runtime/turn",
	"runtime/text":                     "runtime/turn",
	"runtime/textkit":                  "runtime/turn",
	"runtime/mlx":                      "runtime/mlx/internal/cabi runtime/turn",
	"runtime/mlx/internal/cabi":        "runtime/mlx/internal/cpu",
	"runtime/mlx/internal/cpu":         "",
	"runtime/mlx/internal/cpu/cputest": "runtime/mlx/internal/cpu",
	"runtime/kv":                       "runtime/mlx",
	"runtime/sched":                    "runtime/governor runtime/sample runtime/step runtime/turn",
	"runtime/sched/schedtest":          "runtime/sample runtime/sched runtime/step runtime/turn",
	"runtime/engine":                   "models runtime/kv runtime/mlx runtime/sample runtime/step runtime/turn",
	"runtime/runner":                   "models/index runtime/runner/faults runtime/sample runtime/sched runtime/text runtime/turn runtime/wire",
	"runtime/runner/faults":            "runtime/sched runtime/step",
	"runtime/runner/load":              "models models/all runtime/engine runtime/governor runtime/mlx runtime/runner runtime/text runtime/textkit runtime/turn runtime/wire",
	"runtime/runner/ingot-runner":      "runtime/runner runtime/runner/load",
	"runtime/bench":                    "runtime/turn runtime/wire",

	"models":           "models/index runtime/kv runtime/mlx",
	"models/all":       "models/*",
	"models/index":     "",
	"models/weights":   "models/index runtime/mlx",
	"models/nn":        "models models/index models/weights runtime/kv runtime/mlx",
	"models/store":     "models/index",
	"models/modeltest": "models models/store runtime/kv runtime/mlx",
	"models/*":         "models models/index models/nn models/weights runtime/kv runtime/mlx",
}

// testLaw is what tests may import besides.
var testLaw = map[string]string{
	"daemon":                           "daemon/fakerunner ipc/client",
	"daemon/e2e":                       "ipc ipc/client ipc/socket models/store runtime/turn",
	"daemon/ingot/cli":                 "ipc/server ipc/server/servertest",
	"daemon/supervise":                 "daemon/fakerunner daemon/journal",
	"ipc/client":                       "ipc/server ipc/server/servertest",
	"ipc/server":                       "ipc/server/servertest",
	"models/*":                         "models/modeltest runtime/turn",
	"models/nn":                        "models/modeltest",
	"runtime/engine":                   "models/all models/modeltest runtime/governor runtime/sched runtime/sched/schedtest",
	"runtime/runner":                   "runtime/governor runtime/sched/schedtest runtime/step",
	"runtime/runner/faults":            "runtime/sample runtime/sched/schedtest runtime/turn",
	"runtime/runner/ingot-runner":      "models/modeltest runtime/turn runtime/wire",
	"runtime/runner/load":              "models/modeltest runtime/sched runtime/sched/schedtest",
	"runtime/sched":                    "runtime/sched/schedtest",
	"runtime/textkit":                  "runtime/text",
	"runtime/mlx/internal/cpu/cputest": "",
}

// pure packages reach neither MLX nor cgo, through whatever they import.
var pure = []string{"daemon", "ipc", "tray/menu", "launchd", "installer", "runtime/turn", "runtime/wire", "runtime/governor",
	"runtime/sched", "runtime/text", "models/index", "models/store"}

// native packages may say import "C".
var native = []string{"runtime/mlx/internal", "runtime/textkit"}

// source is one Go file of the house.
type source struct {
	path, pkg string // of the file, and of its folder
	test      bool
	lines     int
	imports   []string // ours, without the module's name; and "C"
	funcs     []function
}

type function struct {
	name  string
	lines int
}

// house reads every Go file of the module.
func house(t *testing.T) []source {
	t.Helper()
	var all []source
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != ".." && (strings.HasPrefix(d.Name(), ".") || slices.Contains([]string{"bin", "dist", "target", "testdata"}, d.Name())):
			return fs.SkipDir
		case strings.HasSuffix(path, ".go"):
			all = append(all, read(t, path))
		}
		return nil
	})
	if err != nil || len(all) < 100 {
		t.Fatalf("%d files, %v", len(all), err)
	}
	return all
}

func read(t *testing.T, path string) source {
	t.Helper()
	set := token.NewFileSet()
	body, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := parser.ParseFile(set, path, body, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	rel := filepath.ToSlash(strings.TrimPrefix(path, ".."+string(filepath.Separator)))
	s := source{path: rel, pkg: filepath.ToSlash(filepath.Dir(rel)), test: strings.HasSuffix(path, "_test.go"),
		lines: strings.Count(string(body), "\n")}
	for _, imp := range f.Imports {
		name, err := strconv.Unquote(imp.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		if ours, ok := strings.CutPrefix(name, "ingot/"); ok || name == "C" {
			s.imports = append(s.imports, ours)
		}
	}
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok {
			s.funcs = append(s.funcs, function{fn.Name.Name, set.Position(fn.End()).Line - set.Position(fn.Pos()).Line + 1})
		}
	}
	return s
}

// row returns the line of the law that a package falls under.
func row(pkg string) string {
	if _, ok := law[pkg]; !ok && strings.HasPrefix(pkg, "models/") && strings.Count(pkg, "/") == 1 {
		return "models/*"
	}
	return pkg
}

// allows reports whether a row of the law lists an import.
func allows(list, imp string) bool {
	return slices.ContainsFunc(strings.Fields(list), func(a string) bool { return a == imp || a == row(imp) })
}

func TestImportLaw(t *testing.T) {
	for _, s := range house(t) {
		if s.pkg == "." || strings.HasPrefix(s.pkg, "scripts") {
			continue
		}
		list, ok := law[row(s.pkg)]
		if !ok {
			t.Errorf("%s: the law has no row for %s", s.path, s.pkg)
		}
		for _, imp := range s.imports {
			switch {
			case imp == "C":
				if !slices.ContainsFunc(native, func(n string) bool { return s.pkg == n || strings.HasPrefix(s.pkg, n+"/") }) {
					t.Errorf("%s: cgo belongs in %s", s.path, strings.Join(native, " and "))
				}
			case imp == s.pkg || allows(list, imp): // its own, from an external test
			case s.test && allows(testLaw[row(s.pkg)], imp):
			default:
				t.Errorf("%s: %s may not import %s", s.path, s.pkg, imp)
			}
		}
	}
}

func TestPurePackagesReachNothingNative(t *testing.T) {
	edges := map[string]map[string]bool{}
	for _, s := range house(t) {
		if s.test {
			continue
		}
		if edges[s.pkg] == nil {
			edges[s.pkg] = map[string]bool{}
		}
		for _, imp := range s.imports {
			edges[s.pkg][imp] = true
		}
	}
	for pkg := range edges {
		if !slices.ContainsFunc(pure, func(p string) bool { return pkg == p || strings.HasPrefix(pkg, p+"/") }) {
			continue
		}
		if way := reach(edges, pkg, map[string]bool{}); way != nil {
			t.Errorf("%s is pure, but reaches cgo: %s", pkg, strings.Join(way, " -> "))
		}
	}
}

// reach returns a way from pkg to cgo, if there is one.
func reach(edges map[string]map[string]bool, pkg string, seen map[string]bool) []string {
	if seen[pkg] {
		return nil
	}
	seen[pkg] = true
	for _, imp := range slices.Sorted(maps.Keys(edges[pkg])) {
		if imp == "C" {
			return []string{pkg, "C"}
		}
		if way := reach(edges, imp, seen); way != nil {
			return append([]string{pkg}, way...)
		}
	}
	return nil
}

// Sizes of the house: nine in ten functions and files are within the first
// number, all within the second.
const (
	mostFunc, everyFunc = 40, 80
	mostFile, everyFile = 400, 500
	testsPerCode        = 0.8
)

// tables are files of data in Go: exempt from the size of files.
var tables = []string{"daemon/arch_test.go"}

func TestSizes(t *testing.T) {
	var funcs, files []int
	code, tests := 0, 0
	for _, s := range house(t) {
		if s.test || support(s.pkg) {
			tests += s.lines
		} else {
			code += s.lines
		}
		files = append(files, s.lines)
		if s.lines > everyFile && !slices.Contains(tables, s.path) {
			t.Errorf("%s has %d lines, at most %d", s.path, s.lines, everyFile)
		}
		for _, f := range s.funcs {
			funcs = append(funcs, f.lines)
			if f.lines > everyFunc {
				t.Errorf("%s: %s has %d lines, at most %d", s.path, f.name, f.lines, everyFunc)
			}
		}
	}
	ratio := float64(tests) / float64(code)
	t.Logf("%d lines of code, %d of tests (%.2f); functions p90 %d, files p90 %d", code, tests, ratio, p90(funcs), p90(files))
	if n := p90(funcs); n > mostFunc {
		t.Errorf("nine in ten functions have up to %d lines, want %d", n, mostFunc)
	}
	if n := p90(files); n > mostFile {
		t.Errorf("nine in ten files have up to %d lines, want %d", n, mostFile)
	}
	if ratio < testsPerCode {
		t.Errorf("%.2f lines of tests for one of code, want %v", ratio, testsPerCode)
	}
}

// support reports whether a package is there for tests only.
func support(pkg string) bool {
	return strings.HasSuffix(pkg, "test") || strings.HasPrefix(pkg, "daemon/fakerunner") || pkg == "daemon/e2e"
}

func p90(ns []int) int {
	slices.Sort(ns)
	return ns[len(ns)*9/10]
}
