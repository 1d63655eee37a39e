/** Findings as alerts: active ones by topic, and those whose state is unknown. */
import { ALERT_TOPIC_NAMES, type Alert, type AlertSeverity, type AlertTopic, isWorse } from '../domain/alerts.ts'
import { BUDGET_WARNING_PERCENT } from '../domain/limits.ts'
import { FINDERS, type Found, inUse, SEE_SERVER, type Seen, toNear, toSpent, toUpstreamSubject } from './findings.ts'
import type { UpstreamStatus } from './upstream.ts'

/** Finds a topic's alerts. If the state it `needs` can't be read, its alerts haven't ended. */
interface Sent {
  needs: keyof Seen
  find(seen: Seen): Sendable[]
}

interface Sendable extends Pick<Found, 'subject' | 'part'> {
  severity: AlertSeverity
  /** Called only for alerts that are sent: forecasts of ten thousand budgets would take a second. */
  found(): Pick<Found, 'message' | 'action'> | undefined
}

/** At 50%, nobody needs to act yet, so the dashboard doesn't show it. */
const findSteps = (seen: Seen): Sendable[] =>
  (seen.spenders ?? []).flatMap((spender): Sendable[] => {
    const { type, id, name, budget } = spender
    const subject = { type, id, name }
    if (budget?.state === 'spent') return [{ severity: 'problem', subject, found: () => toSpent(spender)[0] }]
    const step = BUDGET_STEPS.find(({ percent }) => (budget?.percent ?? 0) >= percent)
    return step ? [{ severity: step.severity, subject, found: () => toNear(spender, seen)[0] }] : []
  })

const BUDGET_STEPS = [
  { percent: BUDGET_WARNING_PERCENT, severity: 'warning' },
  { percent: 50, severity: 'info' },
] as const

const toSent = (needs: Sent['needs'], find: (seen: Seen) => Found[]): Sent => ({
  needs,
  find: (seen) => find(seen).map((found) => ({ ...found, found: () => found })),
})

const SENT: Readonly<Record<AlertTopic, Sent>> = {
  budget: { needs: 'spenders', find: findSteps },
  upstream: toSent('upstreams', FINDERS.upstream),
  credential: toSent('upstreams', FINDERS.credential),
  errors: toSent('hours', FINDERS.errors),
  refusals: toSent('refused', FINDERS.refusals),
  unpriced: toSent('unpriced', FINDERS.unpriced),
  disk: toSent('status', FINDERS.disk),
  certificate: toSent('status', FINDERS.certificate),
  backup: toSent('status', FINDERS.backup),
  ledger: toSent('status', FINDERS.ledger),
  server: toSent('status', (seen) => FINDERS.server(seen).filter(({ part }) => part !== 'shutdown')),
}

/** An active alert. */
export interface ActiveAlert extends Pick<Alert, 'topic' | 'severity'> {
  toAlert(): Alert
}

export interface Alerts {
  /** By ID. */
  found: ReadonlyMap<string, ActiveAlert>
  /** Topics and IDs of alerts whose state is unknown. */
  unknown: ReadonlySet<string>
}

const toId = (topic: AlertTopic, { subject, part }: Pick<Sendable, 'subject' | 'part'>) =>
  `${topic}${subject ? `:${subject.type}:${subject.id}` : part ? `:${part}` : ''}`

/** A restart forgets the state of upstreams. */
const toUnchecked = (upstream: UpstreamStatus): string[] =>
  upstream.state === 'unknown'
    ? (['upstream', 'credential'] as const).map((topic) => toId(topic, toUpstreamSubject(upstream)))
    : []

export function toAlerts(seen: Seen): Alerts {
  const all = new Map<string, ActiveAlert>()
  for (const topic of ALERT_TOPIC_NAMES) {
    for (const one of SENT[topic].find(seen)) {
      const { severity, subject, found } = one
      const id = toId(topic, one)
      if (!isWorse(severity, all.get(id)?.severity ?? null)) continue
      const toAlert = (): Alert => {
        const { message = '', action = SEE_SERVER } = found() ?? {}
        return { id, topic, severity, message, subject, path: action.view.path, command: action.command }
      }
      all.set(id, { topic, severity, toAlert })
    }
  }
  const unread = ALERT_TOPIC_NAMES.filter((topic) => seen[SENT[topic].needs] === null)
  return { found: all, unknown: new Set([...unread, ...inUse(seen).flatMap(toUnchecked)]) }
}
