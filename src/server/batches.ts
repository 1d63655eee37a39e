/** The batches of a server. Loaded only if batches exist, or at the first request for one. */
import type { Batches } from '../batches/batches.ts'
import { type Once, once } from '../domain/once.ts'
import type { Key, Snapshot } from '../domain/snapshot.ts'
import type { AppDeps } from '../http/app.ts'
import { isActive } from '../keys/find.ts'
import { traceOf } from '../log.ts'
import type { BatchStore } from '../store/batch-store.ts'
import type { LedgerReader } from '../store/ledger-store.ts'

export interface ServedBatchesDeps {
  dataFolder: string
  store: BatchStore
  reader: Pick<LedgerReader, 'counted'>
  /** Load of the server with its workers. */
  load: { readonly inFlight: number; readonly bufferedBytes: number }
  maxInFlight: number
  maxBufferedBytes: number
  waiting(): Iterable<readonly [string, number]>
  hasPredecessors(): boolean
}

export interface ServedBatches extends Once<Batches> {
  /** Call once the server listens. Continues batches in progress. */
  begin(): void
  pause(): Promise<void>
  resume(): Promise<void>
  stop(): Promise<void>
}

const LOOK_MS = 250

/** @param parts parts of the app, which gets its batches from here. */
export function serveBatches(deps: ServedBatchesDeps, parts: () => AppDeps): ServedBatches {
  const { store, load } = deps
  let hasBegun = false
  const made = once(async () => {
    const batches = await open(deps, parts())
    if (hasBegun) batches.begin()
    return batches
  })
  const ifMade = async (work: (batches: Batches) => unknown) => {
    const batches = await made.begun()
    if (batches) await work(batches)
  }
  return {
    ...made,
    begin() {
      hasBegun = true
      if (made.begun()) void ifMade((batches) => batches.begin())
      else if (!store.isEmpty()) void made.get()
    },
    pause: () => ifMade((batches) => batches.pause()),
    resume: () => ifMade((batches) => batches.resume()),
    stop: () => ifMade((batches) => batches.stop()),
  }

  async function open({ dataFolder, reader, hasPredecessors }: ServedBatchesDeps, app: AppDeps): Promise<Batches> {
    const [batches, { Contents }, { createGatewayLines }, { createUpstreamLines }, { LinePlaces }, http, { formatOf }] =
      await Promise.all([
        import('../batches/batches.ts'),
        import('../batches/contents.ts'),
        import('../batches/gateway-lines.ts'),
        import('../batches/upstream-lines.ts'),
        import('../batches/places.ts'),
        import('../http/batch-lines.ts'),
        import('../http/endpoints.ts'),
      ])
    const { log, now, monotonicMs, pace } = app
    const contents = new Contents(dataFolder)
    const places = new LinePlaces({
      used: () => Math.max(load.inFlight / deps.maxInFlight, load.bufferedBytes / deps.maxBufferedBytes),
      waiting: () => [...deps.waiting()].reduce((sum, [, calls]) => sum + calls, 0),
    })
    const failed = (error: unknown) =>
      log.error('batch_failed', 'a line of a batch is interrupted by an internal error; trying again', {
        error: traceOf(error),
      })
    const gatewayLines = createGatewayLines({
      ...{ places, counted: reader.counted, failed, now, monotonicMs, sleep: Bun.sleep },
      answer: (line) => http.answerLine(app, line),
      async flushLedger() {
        while ((await app.ledger.flush()).waiting > 0) await Bun.sleep(LOOK_MS)
      },
      hasSpace: () => contents.hasSpace(0),
    })
    return batches.createBatches({
      ...{ store, contents, gatewayLines, log, now, sleep: Bun.sleep },
      choose: createUpstreamLines({
        ...{ gateway: app, gatewayLines, formatOf, log, sleep: Bun.sleep },
        isSettled: (requestId) => reader.counted(requestId) !== null,
      }),
      keyOf: (id) => keyOf(app.live.snapshot, id, now()),
      inTurn: (owner, work) => pace.run(owner, work),
      async untilAlone() {
        while (hasPredecessors()) await Bun.sleep(LOOK_MS)
      },
    })
  }
}

const byId = new WeakMap<Snapshot, ReadonlyMap<string, Key>>()

/** Null if the key was removed or revoked, or has expired. */
function keyOf(snapshot: Snapshot, id: string, nowMs: number): Key | null {
  const keys = byId.getOrInsertComputed(
    snapshot,
    ({ secrets }) => new Map([...secrets.values()].map(({ key }) => [key.id, key])),
  )
  const key = keys.get(id)
  return key && isActive(key, nowMs) ? key : null
}
