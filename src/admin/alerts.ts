/** `/admin/api/alerts`: where alerts are sent, tests, and deliveries. URLs and secrets can't be read back. */
import { Type } from '@sinclair/typebox'
import { Elysia, t } from 'elysia'
import { addTarget, findTarget, removeTarget } from '../alerts/targets.ts'
import { createTeller } from '../alerts/teller.ts'
import { Delivery, FORMAT_SAYS, Target, Topics, toDeliveryDocument, toTargetDocument } from '../documents/alert.ts'
import { TextOrNull } from '../documents/fields.ts'
import { ALERT_FORMAT_NAMES, ALERT_TOPIC_NAMES } from '../domain/alerts.ts'
import type { StoredTarget } from '../store/alert-store.ts'
import { access, isOperator } from './access.ts'
import { actors } from './changes.ts'
import { type AdminDeps, toDashboard } from './deps.ts'
import { exactly, oneOf, orNone } from './schema.ts'

const NewTarget = exactly({
  url: Type.String({ maxLength: 4_000, description: 'Webhook URL, such as `https://hooks.slack.com/services/…`.' }),
  name: orNone(Type.String(), "Name. null: the URL's host."),
  format: orNone(oneOf(ALERT_FORMAT_NAMES), `${FORMAT_SAYS} null: by the URL's host.`),
  topics: orNone(Type.Array(oneOf(ALERT_TOPIC_NAMES), { maxItems: 50 }), `${Topics.description} null: all.`),
})

const DeliveriesQuery = t.Object(
  {
    target: t.Optional(t.String({ description: 'ID or name.' })),
    before: t.Optional(t.String({ description: 'ID of the last delivery of the page before.' })),
    limit: t.Optional(t.Integer({ minimum: 1, maximum: 200, description: 'Default: 50.' })),
  },
  { additionalProperties: false },
)

export function alertsController(deps: AdminDeps) {
  const { alerts, vault, lookUp, alertsChanged, publicUrls, now, log } = deps
  const by = actors(deps)
  const teller = createTeller({ alerts, vault, dashboardUrl: toDashboard(publicUrls), now, log })
  const toDocument = async (target: StoredTarget) =>
    toTargetDocument(target, (await alerts.readDeliveries({ targetId: target.id, limit: 1 }))[0] ?? null)

  return new Elysia({ name: 'alerts' })
    .use(access())
    .get('/alerts', async () => ({ targets: await Promise.all((await alerts.readTargets()).map(toDocument)) }), {
      route: {
        least: 'viewer',
        summary: 'List alert targets with their last deliveries',
        answer: Type.Object({ targets: Type.Array(Target) }),
      },
    })
    .post(
      '/alerts',
      async ({ principal, body }) => {
        const own = { alerts, vault, lookUp: isOperator(principal) ? null : lookUp }
        const { target, secret } = await addTarget(own, body, by(principal))
        alertsChanged()
        return { ...toTargetDocument(target, null), secret }
      },
      {
        route: {
          least: 'owner',
          summary: 'Add an alert target',
          description: 'The URL is stored encrypted. Link-local addresses are not allowed.',
          answer: Type.Object({
            ...Target.properties,
            secret: { ...TextOrNull, description: 'Signs JSON (`whsec_…`). Returned only once; null for Slack.' },
          }),
          errors: ['alert_exists', 'invalid', 'secret_unusable', 'catalog_changed'],
        },
        body: NewTarget,
      },
    )
    .delete(
      '/alerts/:id',
      async ({ principal, params: { id } }) => {
        const target = await removeTarget(alerts, id, by(principal))
        alertsChanged()
        return toTargetDocument(target, null)
      },
      {
        route: {
          least: 'owner',
          summary: 'Remove an alert target with its deliveries',
          answer: Target,
          errors: ['alert_not_found'],
        },
      },
    )
    .post(
      '/alerts/:id/test',
      async ({ principal, params: { id } }) => {
        by(principal)
        const target = findTarget(await alerts.readTargets(), id)
        return toDeliveryDocument(await teller.test(target.id), target.name)
      },
      {
        route: {
          least: 'editor',
          summary: 'Send a test message, once, and wait for its result',
          answer: Delivery,
          errors: ['alert_not_found'],
        },
      },
    )
    .get(
      '/alerts/deliveries',
      async ({ query: { target: which, before, limit = 50 } }) => {
        const targets = await alerts.readTargets()
        const names = new Map(targets.map(({ id, name }) => [id, name]))
        const only = which === undefined ? {} : { targetId: findTarget(targets, which).id }
        const found = await alerts.readDeliveries({ ...only, ...(before === undefined ? {} : { before }), limit })
        return { deliveries: found.map((one) => toDeliveryDocument(one, names.get(one.targetId) ?? '')) }
      },
      {
        route: {
          least: 'viewer',
          summary: 'List deliveries of alerts, newest first. The last 1,000 are kept',
          answer: Type.Object({ deliveries: Type.Array(Delivery) }),
          errors: ['alert_not_found'],
        },
        query: DeliveriesQuery,
      },
    )
}
