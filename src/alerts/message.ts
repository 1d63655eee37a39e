/**
 * Alerts as text for chats, and as JSON signed as in Standard Webhooks
 * (https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md, read 2026-11-29).
 */
import type { AlertFormat, SentAlert } from '../domain/alerts.ts'
import { count } from '../domain/text.ts'
import { toAge } from '../domain/time.ts'
import type { AlertDelivery } from '../store/alert-store.ts'
import type { TargetSecrets } from './targets.ts'

export interface Message {
  headers: Record<string, string>
  body: string
}

/** Both limits together keep a text far below the 40,000 characters that Slack accepts. */
export const MAX_LISTED = 20
const MAX_CHARS = 600

/**
 * @param dashboardUrl for links; null without `--public-url`.
 * @param nowMs time of this attempt, which is signed: receivers reject old ones.
 */
export function toMessage(
  delivery: AlertDelivery,
  format: AlertFormat,
  { secret }: TargetSecrets,
  dashboardUrl: string | null,
  nowMs: number,
): Message {
  const body = JSON.stringify(
    format === 'slack' ? { text: toText(delivery, dashboardUrl) } : toJson(delivery, dashboardUrl),
  )
  const headers = { 'content-type': 'application/json', 'user-agent': 'tollgate' }
  if (secret === null) return { headers, body }
  const id = `msg_${delivery.id}`
  const timestamp = String(Math.floor(nowMs / 1_000))
  const signature = sign(secret, `${id}.${timestamp}.${body}`)
  return {
    headers: { ...headers, 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': `v1,${signature}` },
    body,
  }
}

export function sign(secret: string, text: string): string {
  const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64')
  return new Bun.CryptoHasher('sha256', key).update(text).digest('base64')
}

function toJson({ kind, atMs, alerts, more }: AlertDelivery, dashboardUrl: string | null) {
  return {
    type: kind === 'test' ? 'alerts.test' : 'alerts.changed',
    timestamp: toTimestamp(atMs),
    data: {
      dashboard_url: dashboardUrl,
      alerts: alerts.map(({ startedMs, endedMs, path, ...alert }) => ({
        ...alert,
        started_at: toTimestamp(startedMs),
        ended_at: endedMs === null ? null : toTimestamp(endedMs),
        url: dashboardUrl && dashboardUrl + path,
      })),
      more,
    },
  }
}

const toTimestamp = (ms: number) => new Date(ms).toISOString()

export function toText(
  { kind, alerts, more }: Pick<AlertDelivery, 'kind' | 'alerts' | 'more'>,
  dashboardUrl: string | null,
): string {
  if (kind === 'test') return `*Tollgate*: this is a test. Alerts arrive here.${dashboardUrl ? ` ${dashboardUrl}` : ''}`
  const lines = alerts.map((alert) => toLine(alert, dashboardUrl))
  const rest = more === 0 ? [] : [`And ${count(more, 'more alert')}: ${dashboardUrl ?? 'tollgate status'}`]
  return [...lines, ...rest].join('\n')
}

const WORDS = { info: 'Note', warning: 'Warning', problem: 'Problem' } as const

function toLine(alert: SentAlert, dashboardUrl: string | null): string {
  const { status, severity, message, startedMs, endedMs, path, command } = alert
  const says = toPlain(message)
  if (status === 'ended') {
    const age = endedMs === null ? '' : toAge(endedMs - startedMs)
    return `*Tollgate: resolved*${age === '' ? '' : ` after ${age}`}. It was: ${says}`
  }
  const act = dashboardUrl === null ? `\`${toPlain(command)}\`` : `${dashboardUrl}${path} or \`${toPlain(command)}\``
  return `*Tollgate: ${WORDS[severity].toLowerCase()}*. ${says} To act: ${act}`
}

/**
 * Key names and upstream messages are untrusted: Slack would read `<!channel>` as a mention, other chats `@all`.
 */
function toPlain(text: string): string {
  const line = text.replaceAll(/[\p{Cc}\p{Bidi_Control}\s]+/gu, ' ').trim()
  let short = ''
  for (const character of line) {
    const escaped = ESCAPES[character] ?? character
    if (short.length + escaped.length > MAX_CHARS) return `${short}…`
    short += escaped
  }
  return short
}

const ESCAPES: Readonly<Record<string, string>> = {
  ...{ '&': '&amp;', '<': '&lt;', '>': '&gt;', '`': "'", '@': '@\u200b' },
}
