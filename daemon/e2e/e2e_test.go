package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// Folders with the programs, made by TestMain: ingotd and ingot as built from
// this tree, and beside them the runner they shall find.
var (
	fakeBin string // with the runner without a model
	realBin string // with the one that make build has built
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "ingot-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	fakeBin, realBin = filepath.Join(dir, "fake"), filepath.Join(dir, "real")
	for path, pkg := range map[string]string{
		"fake/ingotd": "ingotd", "fake/ingot": "ingot", "fake/ingot-runner": "fakerunner/ingot-fake-runner",
	} {
		cmd := exec.Command("go", "build", "-o", filepath.Join(dir, path), "ingot/daemon/"+pkg)
		if out, err := cmd.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "build %s: %v\n%s", pkg, err, out)
			return 1
		}
	}
	if err := linkReal(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// linkReal fills realBin. The real runner comes from make build, since it
// takes a C++ compiler and a Rust one.
func linkReal() error {
	if err := os.Mkdir(realBin, 0o755); err != nil {
		return err
	}
	runner, err := filepath.Abs("../../bin/ingot-runner")
	if err != nil {
		return err
	}
	if _, err := os.Stat(runner); err != nil {
		return fmt.Errorf("%w: run make build first", err)
	}
	if err := os.Symlink(runner, filepath.Join(realBin, "ingot-runner")); err != nil {
		return err
	}
	for _, p := range []string{"ingotd", "ingot"} {
		// Hard links: the daemon looks for its runner beside its own real path.
		if err := os.Link(filepath.Join(fakeBin, p), filepath.Join(realBin, p)); err != nil {
			return err
		}
	}
	return nil
}

func TestFake(t *testing.T) { scripts(t, "testdata/fake", fakeBin) }
func TestReal(t *testing.T) { scripts(t, "testdata/real", realBin) }

// scripts runs a folder of txtar scripts. doc.go lists their commands.
func scripts(t *testing.T, dir, bin string) {
	testscript.Run(t, testscript.Params{
		Dir:                 dir,
		RequireExplicitExec: true,
		UpdateScripts:       os.Getenv("UPDATE") != "",
		Setup: func(env *testscript.Env) error {
			env.Setenv("PATH", bin+string(os.PathListSeparator)+env.Getenv("PATH"))
			env.Setenv("INGOT_HOME", filepath.Join(env.WorkDir, "home"))
			env.Setenv("INGOT_SOCKET", filepath.Join(env.WorkDir, "s"))
			env.Setenv("HOME", env.WorkDir)
			env.Values[stageKey{}] = &stage{bin: bin}
			env.Defer(func() { // a daemon that the command line started outlives a script that fails
				cmd := exec.Command(filepath.Join(bin, "ingot"), "stop", "--socket", filepath.Join(env.WorkDir, "s"))
				_ = cmd.Run()
			})
			return os.Mkdir(filepath.Join(env.WorkDir, "home"), 0o700)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"daemon": cmdDaemon, "sigterm": cmdSigterm, "model": cmdModel, "starter": cmdStarter,
			"rpc": cmdRPC, "send": cmdSend, "expect": cmdExpect, "hangup": cmdHangup, "capture": cmdCapture,
			"killrunner": cmdKillRunner, "state": cmdState,
		},
	})
}
