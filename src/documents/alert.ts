/** Alert targets and deliveries in JSON, without URLs and secrets. */
import { type Static, Type } from '@sinclair/typebox'
import {
  ALERT_FORMAT_NAMES,
  ALERT_FORMATS,
  ALERT_SEVERITIES,
  ALERT_TOPIC_NAMES,
  ALERT_TOPICS,
  type SentAlert,
} from '../domain/alerts.ts'
import type { AlertDelivery, StoredTarget } from '../store/alert-store.ts'
import { Count, CountOrNull, orNull, Text, TextOrNull, Time, TimeOrNull, wordOf } from './fields.ts'

const toList = (words: Readonly<Record<string, string>>) =>
  Object.entries(words)
    .map(([word, says]) => `\`${word}\`: ${says}`)
    .join('; ')

export const Topics = Type.Array(wordOf(ALERT_TOPIC_NAMES), {
  description: `What to send. ${toList(ALERT_TOPICS)}.`,
})
export const Format = wordOf(ALERT_FORMAT_NAMES)
export const FORMAT_SAYS = `${toList(ALERT_FORMATS)}.`

const Sent = Type.Object({
  id: Type.String({ description: 'Stays the same from start to end.' }),
  status: wordOf(['started', 'raised', 'ended'] as const),
  topic: wordOf(ALERT_TOPIC_NAMES),
  severity: wordOf(ALERT_SEVERITIES),
  message: Text,
  subject: orNull(Type.Object({ type: wordOf(['key', 'team', 'upstream', 'model'] as const), id: Text, name: Text })),
  path: Type.String({ description: 'Page below `/admin`.' }),
  command: Text,
  started_ms: Time,
  ended_ms: TimeOrNull,
})

export const Delivery = Type.Object({
  ...{ id: Text, target_id: Text, target: Text, at_ms: Time, kind: wordOf(['alerts', 'test'] as const) },
  alerts: Type.Array(Sent),
  more: Type.Integer({ description: 'Alerts in the delivery that are not listed.' }),
  state: wordOf(['pending', 'delivered', 'failed'] as const),
  attempts: Count,
  next_ms: { ...TimeOrNull, description: 'Next attempt; null: none.' },
  http_status: { ...CountOrNull, description: 'Status of the last attempt; null: no response.' },
  error: TextOrNull,
  done_ms: TimeOrNull,
})
export type DeliveryDocument = Static<typeof Delivery>

/** @param target the target's name */
export const toDeliveryDocument = (delivery: AlertDelivery, target: string): DeliveryDocument => ({
  ...{ id: delivery.id, target_id: delivery.targetId, target, at_ms: delivery.atMs, kind: delivery.kind },
  ...{ alerts: delivery.alerts.map(toSentDocument), more: delivery.more, state: delivery.state },
  ...{ attempts: delivery.attempts, next_ms: delivery.state === 'pending' ? delivery.nextMs : null },
  ...{ http_status: delivery.httpStatus, error: delivery.error, done_ms: delivery.doneMs },
})

const toSentDocument = ({ startedMs, endedMs, ...alert }: SentAlert): Static<typeof Sent> => ({
  ...{ ...alert, started_ms: startedMs, ended_ms: endedMs },
})

export const Target = Type.Object({
  id: Text,
  name: Text,
  format: { ...Format, description: FORMAT_SAYS },
  url: Type.String({ description: 'Without its path, which may be a secret.' }),
  topics: orNull(Topics),
  created_ms: Time,
  last: orNull(Delivery),
})
export type TargetDocument = Static<typeof Target>

export const toTargetDocument = (target: StoredTarget, last: AlertDelivery | null): TargetDocument => ({
  ...{ id: target.id, name: target.name, format: target.format, url: `${target.origin}/…`, topics: target.topics },
  ...{ created_ms: target.createdMs, last: last && toDeliveryDocument(last, target.name) },
})
