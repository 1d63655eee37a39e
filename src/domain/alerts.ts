/** Alerts to chats and webhooks: topics and formats. */
import { keysOf } from './json.ts'

/** An entry gets help, descriptions, and form labels. */
export const ALERT_TOPICS = {
  budget: 'budgets at 50, 80, and 100%',
  upstream: 'upstreams that are down or degraded',
  credential: 'credentials that are rejected or out of quota',
  errors: 'unusually many failed requests',
  refusals: 'keys with many rejected requests',
  unpriced: 'usage without a price',
  disk: 'low disk space',
  certificate: 'HTTPS certificates that expire soon or cannot be used',
  backup: 'backups that failed or are late',
  ledger: 'requests that cannot be recorded',
  server: 'overload, file limits, unreadable configuration',
} as const
export type AlertTopic = keyof typeof ALERT_TOPICS
export const ALERT_TOPIC_NAMES = keysOf(ALERT_TOPICS)
export const isAlertTopic = (text: string): text is AlertTopic => Object.hasOwn(ALERT_TOPICS, text)

export const ALERT_FORMATS = {
  slack: 'text for Slack and compatible chats',
  json: 'JSON, signed as in Standard Webhooks',
} as const
export type AlertFormat = keyof typeof ALERT_FORMATS
export const ALERT_FORMAT_NAMES = keysOf(ALERT_FORMATS)
export const isAlertFormat = (text: string): text is AlertFormat => Object.hasOwn(ALERT_FORMATS, text)

/** In ascending order. An increase is sent again. */
export const ALERT_SEVERITIES = ['info', 'warning', 'problem'] as const
export type AlertSeverity = (typeof ALERT_SEVERITIES)[number]

export const isWorse = (one: AlertSeverity, than: AlertSeverity | null): boolean =>
  than === null || ALERT_SEVERITIES.indexOf(one) > ALERT_SEVERITIES.indexOf(than)

/** A finding as it is sent. */
export interface Alert {
  /** Constant until the alert ends, such as `budget:key:ID`. */
  id: string
  topic: AlertTopic
  severity: AlertSeverity
  message: string
  subject: { type: 'key' | 'team' | 'upstream' | 'model'; id: string; name: string } | null
  /** Below `/admin`, for any role. */
  path: string
  command: string
}

/** A change of an alert. */
export interface SentAlert extends Alert {
  status: 'started' | 'raised' | 'ended'
  startedMs: number
  endedMs: number | null
}
