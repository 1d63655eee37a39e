/**
 * A keeper as a separate process, which reads its workers' journals: `bun keeper-process.ts <data folder> <instance>
 * <worker>...`. Workers connect to `<worker>.sock`.
 */
import { join } from 'node:path'
import { openStorage } from '../../src/server/storage.ts'
import { listenForLinks } from '../../src/server/workers/link.ts'
import { createTestLog, HOUR } from './fixture.ts'
import { LOAD } from './worker-process.ts'

const [dataFolder = '', instance = '', ...workers] = process.argv.slice(2)
const clocks = { now: () => HOUR + 60_000, monotonicMs: () => performance.now() }
const { openLedger } = await openStorage(
  { version: '1.2.3', dataFolder, instance, startedMs: HOUR, ...clocks, log: createTestLog() },
  new AsyncDisposableStack(),
)
const kept = { keepMs: Number.POSITIVE_INFINITY, auditMs: Number.POSITIVE_INFINITY, diskBytes: null }
const { others } = openLedger({ durability: 'process', maxJournalBytes: 64 * 1024 ** 2, ...kept })
others.follow(() => {})
for (const worker of workers)
  listenForLinks(join(dataFolder, `${worker}.sock`), (link) => {
    others.add(worker, link, { onEnded() {}, onGone: () => console.log(`gone ${worker}`) })
    link.tell(LOAD, join(dataFolder, `${worker}.acknowledged`))
  })
console.log('ready')
