/** Preloaded into every run: an unhandled rejection fails it. */
process.on('unhandledRejection', (reason) => {
  console.error('Unhandled rejection during the tests:', reason)
  process.exitCode = 1
  setTimeout(() => process.exit(1), 50)
})
