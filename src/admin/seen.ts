/** Reads the states that findings are based on. */
import type { Hour, Refused, Seen, Spender } from '../documents/findings.ts'
import { toSettingDocument } from '../documents/server.ts'
import type { FailuresDocument, RefusalsDocument } from '../documents/usage.ts'
import { CLIENT_CLOSED } from '../domain/report-filters.ts'
import { DAY_MS, dayOf, HOUR_MS, hourOf } from '../domain/time.ts'
import { type ListedKey, listKeys, listTeams } from '../keys/service.ts'
import type { AlertStore } from '../store/alert-store.ts'
import { type AdminDeps, type Asker, type Reports, toUsage } from './deps.ts'

/** For this long, all callers share a report. */
const SPEND_MS = 5_000
const USAGE_MS = 60_000

export const EMPTY: Omit<Seen, 'nowMs' | 'spenders'> = {
  ...{ upstreams: [], status: null, reasons: [], hours: null, refused: null, unpriced: null, pending: [] },
  unsent: [],
}

/** @param spendMs maximum age of the spend of keys and teams. */
export function createSeen(
  { store, alerts, reports, serving, now }: Pick<AdminDeps, 'store' | 'alerts' | 'reports' | 'serving' | 'now'>,
  spendMs = SPEND_MS,
) {
  const spendersOf = createShared(spendMs, now, async (asker: Asker) => {
    const [keys, teams, ofKey, ofTeam] = await Promise.all([
      listKeys(store, now()),
      listTeams(store),
      reports.spendStatuses(asker, 'key'),
      reports.spendStatuses(asker, 'team'),
    ])
    return [...teams.map((team) => toSpender('team', team, ofTeam)), ...toSpenders(keys, ofKey)]
  })

  const usageOf = createShared(USAGE_MS, now, async (asker: Asker) => {
    const of = async (by: 'hour' | 'day' | 'model', sinceMs: number) => {
      const options = { by: [by], sinceMs, untilMs: null, where: {}, limit: MAX_GROUPS, figures: 'sums' } as const
      return toUsage(await reports.usage(asker, options))
    }
    /** By hour or day. Requests that their clients ended, such as by a Stop button, don't count as failed. */
    const countsOf = async (by: 'hour' | 'day', sinceMs: number): Promise<Hour[]> => {
      const options = { by, sinceMs, untilMs: null, where: {}, limit: MAX_GROUPS }
      const [{ usage }, json] = await Promise.all([of(by, sinceMs), reports.failures(asker, options)])
      const { failures } = JSON.parse(json) as FailuresDocument
      const stopped = failures.filter(({ error_code: code }) => code === CLIENT_CLOSED)
      return usage.map((row) => {
        const ms = Number(row[`${by}_ms`])
        const own = stopped.reduce((all, { at_ms, requests }) => (at_ms === ms ? all + requests : all), 0)
        return { ms, requests: Number(row.requests), failed: Number(row.errors) + Number(row.cuts) - own }
      })
    }
    const [thisMs, weekMs] = [hourOf(now()), dayOf(now()) - 7 * DAY_MS]
    // Days are read last, so that they include all requests of the hours.
    const recent = await countsOf('hour', thisMs - HOUR_MS)
    const [week, models] = await Promise.all([countsOf('day', weekMs), of('model', thisMs - DAY_MS)])
    const sum = (rows: readonly Hour[], name: 'requests' | 'failed') => rows.reduce((all, row) => all + row[name], 0)
    const before = (name: 'requests' | 'failed') => sum(week, name) - sum(recent, name)
    return {
      hours: [{ ms: weekMs, requests: before('requests'), failed: before('failed') }, ...recent],
      unpriced: [
        ...models.usage
          .map(({ model, unpriced }) => ({ model: String(model), requests: Number(unpriced) }))
          .sort((a, b) => b.requests - a.requests),
        { model: null, requests: Number(models.other?.unpriced ?? 0) },
      ].filter(({ requests }) => requests > 0),
    }
  })

  const refusedOf = createShared(USAGE_MS, now, async (asker: Asker): Promise<Refused[]> => {
    const options = { by: ['key', 'code'], sinceMs: hourOf(now()) - HOUR_MS, untilMs: null } as const
    const json = await reports.refusals(asker, { ...options, where: {}, limit: MAX_GROUPS })
    return (JSON.parse(json) as RefusalsDocument).refusals
      .filter(({ key_id: id }) => id !== null)
      .map(({ key_id: id, key: name, http_status: status, code, meaning, refused, last_ms: lastMs }) => ({
        key: { id: String(id), name: String(name ?? id) },
        ...{ status: Number(status), code: String(code), meaning: String(meaning) },
        ...{ refused: Number(refused), lastMs: Number(lastMs) },
      }))
  })

  return async (asker: Asker): Promise<Seen> => {
    // The revision makes a change show at once.
    const { revision } = await serving.readSnapshot()
    const [status, settings, spenders, usage, refused, unsent] = await Promise.all([
      serving.status(),
      store.readSettings(),
      orNone(spendersOf(asker, revision)),
      orNone(usageOf(asker, 0)),
      orNone(refusedOf(asker, 0)),
      findUnsent(alerts),
    ])
    const pending = serving.settings.filter((one) => toSettingDocument(one, settings[one.name] ?? null).pending)
    return {
      ...{ nowMs: now(), upstreams: serving.upstreams() ?? [], status, reasons: serving.reasons(), spenders },
      ...{ hours: usage?.hours ?? null, refused, unpriced: usage?.unpriced ?? null, unsent },
      pending: pending.map(({ name }) => name),
    }
  }
}

/** After fewer failures, the receiver may only be restarting. */
const FEW_ATTEMPTS = 3

async function findUnsent(alerts: AlertStore): Promise<Seen['unsent']> {
  const last = async ({ id, name }: { id: string; name: string }) => {
    const [delivery] = await alerts.readDeliveries({ targetId: id, limit: 1 })
    if (!delivery || delivery.state === 'delivered' || delivery.error === null) return []
    if (delivery.state === 'pending' && delivery.attempts < FEW_ATTEMPTS) return []
    return { name, error: delivery.error, sinceMs: delivery.atMs }
  }
  return (await Promise.all((await alerts.readTargets()).map(last))).flat()
}

type StatusOf = Awaited<ReturnType<Reports['spendStatuses']>>

export const toSpender = (
  type: Spender['type'],
  { id, name, budget }: Parameters<StatusOf>[0] & { name: string },
  statusOf: StatusOf,
): Spender => ({ type, id, name, budget: statusOf({ id, budget }).budget })

export const toSpenders = (keys: readonly ListedKey[], statusOf: StatusOf): Spender[] =>
  keys.filter(({ status }) => status === 'active').map((key) => toSpender('key', key, statusOf))

const MAX_GROUPS = 20_000

/** A report that can't be read must not hide the others. */
const orNone = <T>(reading: Promise<T>): Promise<T | null> => reading.catch(() => null)

/** All callers share a result for `forMs`, or until the revision changes. */
function createShared<T>(forMs: number, now: () => number, read: (asker: Asker) => Promise<T>) {
  let last: { revision: number; atMs: number; result: Promise<T> } | null = null
  return (asker: Asker, revision: number): Promise<T> => {
    const isFresh = last !== null && last.revision === revision && Math.abs(now() - last.atMs) < forMs
    if (isFresh && last) return last.result
    // Without the caller's signal, since others may wait for the result.
    const result = read({ id: asker.id })
    const made = { revision, atMs: now(), result }
    last = made
    result.catch(() => {
      if (last === made) last = null
    })
    return result
  }
}
