/** Creates a segment while this process uses all of its file descriptors: `bun test/ledger/short-of-files.ts PATH`. */
import { existsSync, openSync } from 'node:fs'
import { toHead } from '../../src/ledger/journal-file.ts'
import { createSegment } from '../../src/ledger/segment.ts'

const [path = ''] = process.argv.slice(2)
const making = createSegment(path, 8 * 1024 * 1024, Buffer.from(toHead('1')))
while (!existsSync(path)) await Bun.sleep(0)
try {
  for (;;) openSync('/dev/null', 'r')
} catch {
  // No file descriptor is left.
}
const segment = await making
process.stdout.write(`${segment.used > 0}\n`)
process.exit(0)
