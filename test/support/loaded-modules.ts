/** Preloaded into a server that a test runs from source: prints the modules of `src/` loaded so far on SIGUSR2. */
import { resolve } from 'node:path'

const SRC = `${resolve(import.meta.dir, '../../src')}/`

process.on('SIGUSR2', () => {
  const own = Object.keys(require.cache).flatMap((path) => (path.startsWith(SRC) ? [path.slice(SRC.length)] : []))
  console.log(`modules ${JSON.stringify(own)}`)
})
