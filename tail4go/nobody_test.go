//go:build unix

package tail4go

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// runAsNobody runs the calling test in a process of a user without rights.
func runAsNobody(t *testing.T) {
	t.Helper()
	exe, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Skip("running as root, and can't run as somebody else: ", err)
	}
	dir, err := os.MkdirTemp("/tmp", "nobody") // t.TempDir is closed to others
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	const nobody = 65534
	bin := filepath.Join(dir, "test")
	for _, err := range []error{
		os.WriteFile(bin, exe, 0o755), os.Chmod(bin, 0o755), os.Chown(dir, nobody, nobody),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(bin, "-test.run", "^"+t.Name()+"$", "-test.v")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "TMPDIR="+dir, "HOME="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("as nobody: %v\n%s", err, out)
	}
}
