/**
 * Reports to each target once when an alert starts, gets worse, or ends, also across restarts. Changes stay in its
 * events until they move to a delivery, in one transaction. A target has one delivery at a time, which is retried, so
 * that nothing queues up, however long its receiver is down.
 */
import type { Alerts } from '../documents/active-alerts.ts'
import { isWorse, type SentAlert } from '../domain/alerts.ts'
import { mintId } from '../domain/id.ts'
import type { Log } from '../log.ts'
import type { AlertDelivery, AlertEvent, AlertStore, AlertWrite, StoredTarget } from '../store/alert-store.ts'
import type { Vault } from '../store/vault.ts'
import { MAX_LISTED, toMessage } from './message.ts'
import { type Attempt, SEND_MS, type SendOptions, send } from './send.ts'
import { findTarget, openTarget } from './targets.ts'

export interface TellerDeps {
  alerts: AlertStore
  vault: Pick<Vault, 'openFor'>
  /** For links; null without `--public-url`. */
  dashboardUrl: string | null
  /** Wall clock, ms. */
  now(): number
  log: Log
  /** Deadline of an attempt. */
  sendMs?: number
}

/** An alert that returns sooner has not ended, such as when a breaker tests an upstream. */
const HOLD_MS = 120_000
const RETRY_MS = [5_000, 30_000, 120_000, 600_000]
/** About six hours. */
const MAX_ATTEMPTS = 40
const MAX_RETRY_AFTER_MS = 3_600_000

interface Track {
  events: Map<string, AlertEvent>
  /** Since when an alert is gone or less severe than reported, ms. */
  lowMs: Map<string, number>
  pending: AlertDelivery | null
  isSending: boolean
}

export function createTeller(deps: TellerDeps) {
  const { alerts, now, log, sendMs: ms = SEND_MS } = deps
  const tracks = new Map<string, Track>()
  const stop = new AbortController()
  /** Serializes changes of events, by `look` and by delivery results. */
  let last: Promise<unknown> = Promise.resolve()
  const inTurn = <T>(work: () => Promise<T>): Promise<T> => {
    const turn = last.then(work)
    last = turn.catch(() => {})
    return turn
  }

  /**
   * A full disk must not silence its own alert: alerts that can't be recorded are sent again after a restart. False if
   * the target is gone.
   */
  const save = (what: AlertWrite): Promise<boolean> =>
    alerts.write(what).catch((error) => {
      log.warn('alert_failed', 'alerts cannot be recorded, and may be sent again', { error: String(error) })
      return true
    })

  const readTracks = async (): Promise<[StoredTarget, Track][]> => {
    const targets = await alerts.readTargets()
    for (const id of tracks.keys()) if (!targets.some((target) => target.id === id)) tracks.delete(id)
    const added = targets.filter(({ id }) => !tracks.has(id))
    const pending = added.length === 0 ? [] : await alerts.readPending()
    for (const { id } of added) {
      const events = new Map((await alerts.readEvents(id)).map((event) => [event.alert.id, event]))
      const own = pending.find(({ targetId }) => targetId === id) ?? null
      tracks.set(id, { events, lowMs: new Map(), pending: own, isSending: false })
    }
    return targets.flatMap((target) => {
      const track = tracks.get(target.id)
      return track ? [[target, track]] : []
    })
  }

  /** Puts unreported events into a delivery, unless one is pending. */
  const prepare = async ({ id: targetId }: StoredTarget, track: Track): Promise<void> => {
    if (track.pending !== null) return
    const untold = [...track.events.values()].filter(isUntold)
    if (untold.length === 0) return
    const delivery = beginDelivery(targetId, 'alerts', untold.map(toSent).sort(byUrgency), now())
    const drop = untold.flatMap(({ endedMs, alert }) => (endedMs === null ? [] : alert.id))
    const put = untold
      .filter(({ endedMs }) => endedMs === null)
      .map((event) => ({ ...event, told: event.alert.severity }))
    if (!(await save({ targetId, put, drop, delivery }))) return
    for (const id of drop) {
      track.events.delete(id)
      track.lowMs.delete(id)
    }
    for (const event of put) track.events.set(event.alert.id, event)
    track.pending = delivery
  }

  const deliverTo = async (target: StoredTarget, track: Track): Promise<void> => {
    if (track.isSending) return
    track.isSending = true
    try {
      while (track.pending !== null && track.pending.nextMs <= now() && !stop.signal.aborted) {
        const attempt = await attemptOne(target, track.pending, { ms, signal: stop.signal })
        if (stop.signal.aborted) return
        const next = toNext(track.pending, attempt, now())
        await inTurn(async () => {
          track.pending = next.state === 'pending' ? next : null
          if (!(await save({ targetId: target.id, delivery: next }))) return
          note(target, next)
          await prepare(target, track)
        })
      }
    } finally {
      track.isSending = false
    }
  }

  const attemptOne = async (target: StoredTarget, delivery: AlertDelivery, options: SendOptions): Promise<Attempt> => {
    const secrets = await openTarget(deps.vault, target)
    if (secrets === null) return { ok: false, httpStatus: null, error: NOT_OPENED, retryAfterMs: 0, isGone: false }
    return send(secrets.url, toMessage(delivery, target.format, secrets, deps.dashboardUrl, now()), options)
  }

  /** Logs a delivery's first failure and its end. */
  const note = ({ id: target }: StoredTarget, { id, kind, alerts, state, attempts, error }: AlertDelivery) => {
    const fields = { target, delivery: id, alerts: alerts.length, attempts }
    if (state === 'delivered') log.info('alert_delivered', 'alerts delivered', fields)
    else if (state === 'failed') log.error('alert_failed', `${kind} not delivered`, { ...fields, error })
    else if (attempts === 1) log.warn('alert_failed', 'alerts not delivered yet', { ...fields, error })
  }

  return {
    /** Records changes; `deliver` sends them. */
    look: (found: Alerts): Promise<void> =>
      inTurn(async () => {
        for (const [target, track] of await readTracks()) {
          const put = findChanges(target, track, found, now())
          if (put.length > 0 && !(await save({ targetId: target.id, put }))) continue
          for (const event of put) track.events.set(event.alert.id, event)
          await prepare(target, track)
        }
      }),
    /** Sends due deliveries; resolves once all receivers responded or timed out. */
    async deliver(): Promise<void> {
      await Promise.all((await inTurn(readTracks)).map(([target, track]) => deliverTo(target, track)))
    },
    /** Makes and records one attempt. Throws `alert_not_found`. */
    async test(which: string): Promise<AlertDelivery> {
      const target = findTarget(await alerts.readTargets(), which)
      const delivery = beginDelivery(target.id, 'test', [], now())
      const { ok, ...attempt } = await attemptOne(target, delivery, { ms, signal: stop.signal })
      const done = toNext(delivery, { ...attempt, ok, isGone: !ok }, now())
      await save({ targetId: target.id, delivery: done })
      note(target, done)
      return done
    },
    /** Another server sends alerts from now on: this one must read the events again before it sends any. */
    forget: (): Promise<void> => inTurn(async () => tracks.clear()),
    close: () => stop.abort(),
  }
}

export type Teller = ReturnType<typeof createTeller>

const NOT_OPENED =
  "its URL can't be decrypted. Restore the encryption key (the file 'secret' or TOLLGATE_SECRET), or remove the target and add it again"

/** Per look, since writing blocks the event loop; the next look finds the others. */
const MAX_CHANGES = 500

/** New and changed events. */
function findChanges(target: StoredTarget, track: Track, { found, unknown }: Alerts, nowMs: number): AlertEvent[] {
  const { events, lowMs } = track
  const changed: AlertEvent[] = []
  const isFull = () => changed.length >= MAX_CHANGES
  for (const [id, { topic, toAlert }] of found) {
    if (isFull()) break
    if (!events.has(id) && (target.topics?.includes(topic) ?? true))
      changed.push({ targetId: target.id, alert: toAlert(), told: null, startedMs: nowMs, endedMs: null })
  }
  for (const [id, event] of events) {
    if (isFull()) break
    const now = found.get(id)
    if (unknown.has(event.alert.topic) || (!now && unknown.has(id))) continue
    if (now && !isWorse(event.alert.severity, now.severity)) {
      lowMs.delete(id)
      if (event.endedMs !== null) changed.push({ ...event, endedMs: null })
      else if (isWorse(now.severity, event.alert.severity)) changed.push({ ...event, alert: now.toAlert() })
      continue
    }
    const sinceMs = lowMs.getOrInsert(id, nowMs)
    if (nowMs - sinceMs < HOLD_MS || event.endedMs !== null) continue
    changed.push(
      now ? { ...event, alert: now.toAlert(), told: event.told && now.severity } : { ...event, endedMs: sinceMs },
    )
  }
  return changed
}

const isUntold = ({ alert, told, endedMs }: AlertEvent) => endedMs !== null || isWorse(alert.severity, told)

const toSent = ({ alert, told, startedMs, endedMs }: AlertEvent): SentAlert => ({
  ...alert,
  status: endedMs !== null ? 'ended' : told === null ? 'started' : 'raised',
  ...{ startedMs, endedMs },
})

/** Most urgent first. */
const byUrgency = (one: SentAlert, other: SentAlert): number =>
  Number(one.status === 'ended') - Number(other.status === 'ended') ||
  Number(isWorse(other.severity, one.severity)) - Number(isWorse(one.severity, other.severity))

const beginDelivery = (
  targetId: string,
  kind: AlertDelivery['kind'],
  sent: readonly SentAlert[],
  nowMs: number,
): AlertDelivery => ({
  ...{ id: mintId(nowMs), targetId, atMs: nowMs, kind, alerts: sent.slice(0, MAX_LISTED) },
  ...{ more: Math.max(0, sent.length - MAX_LISTED), state: 'pending', attempts: 0, nextMs: nowMs },
  ...{ httpStatus: null, error: null, doneMs: null },
})

function toNext(delivery: AlertDelivery, { ok, httpStatus, error, retryAfterMs, isGone }: Attempt, nowMs: number) {
  const attempts = delivery.attempts + 1
  const isOver = ok || isGone || attempts >= MAX_ATTEMPTS
  const waitMs = Math.max(
    RETRY_MS[delivery.attempts] ?? RETRY_MS.at(-1) ?? 0,
    Math.min(retryAfterMs, MAX_RETRY_AFTER_MS),
  )
  return {
    ...{ ...delivery, attempts, httpStatus, error },
    state: ok ? ('delivered' as const) : isOver ? ('failed' as const) : ('pending' as const),
    nextMs: isOver ? delivery.nextMs : nowMs + waitMs,
    doneMs: isOver ? nowMs : null,
  }
}
