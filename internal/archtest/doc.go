// Package archtest holds a test that keeps the import arrows of ARCHITECTURE.md. There is nothing to import.
package archtest
