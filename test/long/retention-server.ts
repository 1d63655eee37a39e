/**
 * A ledger with retention under load until it is killed, on a clock 100,000 times too fast: a day is about a second.
 * Arguments: data folder, real time (ms) at which its clock was at BASE_MS, and files for requests possibly opened and
 * surely settled, a letter per request.
 */
import { appendFileSync } from 'node:fs'
import { mintId } from '../../src/domain/id.ts'
import { createLog } from '../../src/log.ts'
import { openStorage } from '../../src/server/storage.ts'
import { withFirstCall } from '../../src/store/ledger-rows.ts'
import { toCall, toOpen, toSettled, toSettledCall } from '../ledger/fixture.ts'

export const BASE_MS = Date.UTC(2026, 0, 1)
const SPEED = 100_000
const DAY_MS = 86_400_000

export const toFastMs = (sinceMs: number) => BASE_MS + Math.floor((Date.now() - sinceMs) * SPEED)

async function serve([dataFolder = '', since = '', opened = '', settled = '']: string[]): Promise<void> {
  const now = () => toFastMs(Number(since))
  const instance = mintId(now())
  const options = {
    version: '1.2.3',
    dataFolder,
    instance,
    startedMs: now(),
    now,
    monotonicMs: now,
    log: createLog({ now }),
  }
  const storage = await openStorage(options, new AsyncDisposableStack())
  const { ledger, retention } = storage.openLedger({
    durability: 'process',
    maxJournalBytes: 1024 ** 3,
    auditMs: Number.POSITIVE_INFINITY,
    keepMs: DAY_MS,
    diskBytes: null,
  })
  const request = async (number: number) => {
    const createdMs = now()
    const keyId = `key-${number % 7}`
    const row = toOpen({ id: mintId(createdMs), createdMs, instance, keyId, reservedNanoUsd: 1 })
    appendFileSync(opened, '.')
    await ledger.open(row)
    // Some stay in flight.
    if (number % 500 === 0) return
    const call = toCall(row, 2, { reservedNanoUsd: 0 })
    if (number % 3 !== 0) await ledger.settle(toSettled(row, { costNanoUsd: 1 }))
    else {
      await ledger.openCall(call)
      const counts = { promptTokens: 99, cachedTokens: 9, completionTokens: 99, reasoningTokens: 9 }
      const both = toSettled(row, { ...counts, costNanoUsd: 1, attempts: 2 })
      await ledger.settle(both, withFirstCall(both, [toSettledCall(call, { costNanoUsd: 0 })]))
    }
    appendFileSync(settled, '.')
  }
  const load = async () => {
    for (let number = 1; ; number += 16) {
      await Promise.all(Array.from({ length: 16 }, (_, i) => request(number + i)))
      await Bun.sleep(5)
    }
  }
  const prune = async () => {
    for (;;) {
      await retention.pass()
      await Bun.sleep(20)
    }
  }
  process.stdout.write('serving\n')
  // Ends with the test that started it.
  process.stdin.on('end', () => process.exit()).resume()
  await Promise.all([load(), prune()])
}

if (import.meta.main) await serve(process.argv.slice(2))
