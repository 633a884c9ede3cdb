package socket

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// folder returns a short temporary folder: t.TempDir is too long for a socket
// on some machines.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "ipc")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func mustListen(t *testing.T, path string) *Listener {
	t.Helper()
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func TestListenMakesAPrivateSocketInAPrivateFolder(t *testing.T) {
	path := filepath.Join(folder(t), "home", "run", "s")
	l := mustListen(t, path)
	for p, want := range map[string]os.FileMode{path: 0o600, filepath.Dir(path): 0o700} {
		st, err := os.Stat(p)
		if err != nil || st.Mode().Perm() != want {
			t.Errorf("%s has mode %v (%v), want %v", p, st.Mode().Perm(), err, want)
		}
	}
	l.Close()
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after Close the file is still there: %v", err)
	}
	mustListen(t, path)
}

func TestALiveOwnerIsNotEvicted(t *testing.T) {
	path := filepath.Join(folder(t), "s")
	if Owned(path) {
		t.Error("owned by nobody")
	}
	l0 := mustListen(t, path)
	if !Owned(path) {
		t.Error("not owned")
	}
	l0.Close()
	if Owned(path) {
		t.Error("owned after Close")
	}
	mustListen(t, path)
	if _, err := Listen(path); !errors.Is(err, ErrLive) {
		t.Fatalf("second listener: %v", err)
	}
	// One that holds no lock, as another program would.
	other := filepath.Join(folder(t), "o")
	l, err := net.Listen("unix", other)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := Listen(other); !errors.Is(err, ErrLive) {
		t.Fatalf("over a foreign owner: %v", err)
	}
	if _, err := Dial(t.Context(), path, 0); err != nil {
		t.Fatalf("the owner no longer answers: %v", err)
	}
}

func TestAStaleSocketIsReplaced(t *testing.T) {
	path := filepath.Join(folder(t), "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	mustListen(t, path)
}

func TestAFileThatIsNoSocketIsLeftAlone(t *testing.T) {
	path := filepath.Join(folder(t), "s")
	if err := os.WriteFile(path, []byte("precious"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(path); !errors.Is(err, ErrNotSocket) || !strings.Contains(err.Error(), path) {
		t.Fatalf("got %v", err)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "precious" {
		t.Fatalf("the file became %q, %v", b, err)
	}
}

func TestTooLongAPathIsNamed(t *testing.T) {
	path := filepath.Join("/tmp", strings.Repeat("x", MaxPath))
	if _, err := Listen(path); !errors.Is(err, ErrTooLong) || !strings.Contains(err.Error(), path) {
		t.Errorf("listen: %v", err)
	}
	if _, err := Dial(t.Context(), path, 0); !errors.Is(err, ErrTooLong) {
		t.Errorf("dial: %v", err)
	}
}

func TestOfTwoStartingAtOnceOneWins(t *testing.T) {
	path := filepath.Join(folder(t), "s")
	var mu sync.Mutex
	var won []*Listener
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			l, err := Listen(path)
			if err != nil && !errors.Is(err, ErrLive) {
				t.Error(err)
			}
			if err == nil {
				mu.Lock()
				won = append(won, l)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if len(won) != 1 {
		t.Fatalf("%d listeners won", len(won))
	}
	won[0].Close()
}

func TestCloseLeavesASuccessorsSocket(t *testing.T) {
	path := filepath.Join(folder(t), "s")
	old := mustListen(t, path)
	os.Remove(path)
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	old.Close()
	if _, err := os.Lstat(path); err != nil {
		t.Fatalf("the successor's file is gone: %v", err)
	}
}

func TestDialHasPatience(t *testing.T) {
	path := filepath.Join(folder(t), "s")
	if _, err := Dial(t.Context(), path, 0); !errors.Is(err, ErrAbsent) {
		t.Fatalf("nobody there: %v", err)
	}
	got := make(chan error, 1)
	go func() {
		c, err := Dial(context.Background(), path, time.Minute)
		if err == nil {
			c.Close()
		}
		got <- err
	}()
	l := mustListen(t, path)
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	if err := <-got; err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Dial(ctx, filepath.Join(folder(t), "no"), time.Minute); !errors.Is(err, context.Canceled) {
		t.Fatalf("cancelled: %v", err)
	}
}

// connected returns the two ends of one connection.
func connected(t *testing.T) (client *net.UnixConn, server net.Conn) {
	t.Helper()
	l := mustListen(t, filepath.Join(folder(t), "s"))
	c, err := Dial(t.Context(), l.path, 0)
	if err != nil {
		t.Fatal(err)
	}
	s, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(); s.Close() })
	return c.(*net.UnixConn), s
}

func TestThePeerIsUs(t *testing.T) {
	_, s := connected(t)
	if uid, err := PeerUID(s); err != nil || int(uid) != os.Getuid() {
		t.Fatalf("peer %d, %v; want %d", uid, err, os.Getuid())
	}
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	if _, err := PeerUID(a); err == nil {
		t.Fatal("a pipe has a user")
	}
}

func TestGoneTellsAHalfFromAWhole(t *testing.T) {
	c, s := connected(t)
	if Gone(s) {
		t.Fatal("gone while open")
	}
	c.CloseWrite()
	if _, err := s.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	if Gone(s) {
		t.Fatal("gone while it still reads")
	}
	c.Close()
	if !Gone(s) {
		t.Fatal("not gone after close")
	}
}

func TestTell(t *testing.T) {
	for in, want := range map[string]Tongue{
		`{"jsonrpc":"2.0"}`: JSON, "[]": JSON, "\n{}": JSON, "hello\n": JSON, "GETTY": JSON, "G": JSON, "\x16\x03": JSON,
		"GET / HTTP/1.1\r\n": HTTP, "POST /rpc HTTP/1.1\r\n": HTTP, "OPTIONS * HTTP/1.1\r\n": HTTP,
	} {
		c, s := connected(t)
		go func() {
			for _, b := range []byte(in) { // one by one: the teller must wait
				c.Write([]byte{b})
			}
			c.CloseWrite()
		}()
		p, got, err := Tell(s)
		if err != nil || got != want {
			t.Errorf("%q: tongue %d, %v", in, got, err)
		}
		if all, err := io.ReadAll(p); err != nil || string(all) != in {
			t.Errorf("%q came as %q, %v", in, all, err)
		}
		if uid, err := PeerUID(p); err != nil || int(uid) != os.Getuid() {
			t.Errorf("peer of a told connection: %d, %v", uid, err)
		}
	}
	c, s := connected(t)
	c.Close()
	if _, _, err := Tell(s); !errors.Is(err, io.EOF) {
		t.Errorf("nothing came: %v", err)
	}
}

func TestPath(t *testing.T) {
	t.Setenv("INGOT_SOCKET", "")
	t.Setenv("INGOT_HOME", "/h")
	if p, err := Path(); err != nil || p != "/h/run/ingot.sock" {
		t.Errorf("got %s, %v", p, err)
	}
	t.Setenv("INGOT_SOCKET", "/s")
	if p, err := Path(); err != nil || p != "/s" {
		t.Errorf("got %s, %v", p, err)
	}
	t.Setenv("INGOT_SOCKET", "")
	t.Setenv("INGOT_HOME", "")
	t.Setenv("HOME", "/u")
	if p, err := Path(); err != nil || p != "/u/.ingot/run/ingot.sock" {
		t.Errorf("got %s, %v", p, err)
	}
}
