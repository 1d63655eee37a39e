/** Preloaded into every test run: an unhandled rejection anywhere is a bug, so it fails the run. */
process.on('unhandledRejection', (reason) => {
  console.error('Unhandled rejection during the tests:', reason)
  process.exitCode = 1
  setTimeout(() => process.exit(1), 50)
})
