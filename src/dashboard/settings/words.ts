/** Texts of settings and alerts. */
import { ALERT_TOPIC_NAMES, type AlertTopic, isAlertFormat } from '../../domain/alerts.ts'
import { count } from '../../domain/text.ts'

/** Keeps the server's order. */
export const toGroups = <Setting extends { group: string }>(settings: readonly Setting[]) =>
  [...Map.groupBy(settings, ({ group }) => group)].map(([title, ofGroup]) => ({ title, settings: ofGroup }))

interface Placed {
  name: string
  from: 'flag' | 'environment' | 'setting' | 'default'
  variable: string
}

/** The source of the current value. */
export const toPlace = ({ name, from, variable }: Placed): string =>
  ({ flag: `flag --${name}`, environment: `variable ${variable}`, setting: 'set here', default: 'default' })[from]

/** Such as `12.4 MiB`, by powers of 1,024, as in `--disk-budget` and findings. */
export function toBytes(bytes: number): string {
  if (bytes < 1_024) return `${bytes} B`
  for (const [unit, size] of UNITS) {
    const amount = bytes / size
    if (amount < 999.5) return `${amount < 99.95 ? amount.toFixed(1).replace(/\.0$/, '') : amount.toFixed(0)} ${unit}`
  }
  return `${(bytes / 2 ** 40).toFixed(1)} TiB`
}

const UNITS = [
  ['KiB', 2 ** 10],
  ['MiB', 2 ** 20],
  ['GiB', 2 ** 30],
] as const

/** @param origin such as `https://gateway.example.com` */
export const toCurl = (origin: string, token: string): string =>
  [`curl ${origin}/admin/api/keys \\`, `  -H 'Authorization: Bearer ${token}'`].join('\n')

/** A new target, for all topics. */
export const NEW_TARGET = {
  ...{ url: '', name: '', format: '' },
  ...(Object.fromEntries(ALERT_TOPIC_NAMES.map((topic) => [topic, 'yes'])) as Record<AlertTopic, string>),
}

export type TargetValues = typeof NEW_TARGET

/** null: all topics, including those of later versions. */
export function toNewTarget({ url, name, format, ...values }: TargetValues) {
  const topics = ALERT_TOPIC_NAMES.filter((topic) => values[topic] === 'yes')
  return {
    ...{ url: url.trim(), name: name.trim() || null, format: isAlertFormat(format) ? format : null },
    topics: topics.length === ALERT_TOPIC_NAMES.length ? null : topics,
  }
}

interface Summed {
  kind: 'alerts' | 'test'
  alerts: readonly { status: 'started' | 'raised' | 'ended'; message: string }[]
  more: number
}

/** Such as `Ended: Upstream a is down. And 2 more.` */
export function toSummary({ kind, alerts, more }: Summed): string {
  const [first] = alerts
  if (kind === 'test' || !first) return 'Test message'
  const rest = alerts.length - 1 + more
  return `${STATUS_WORDS[first.status]}${first.message}${rest > 0 ? ` And ${count(rest, 'more alert')}.` : ''}`
}

const STATUS_WORDS = { started: '', raised: '', ended: 'Ended: ' } as const
