/** `/admin/api/keys`, and a member's own keys at `/admin/api/own/keys`. Secrets are only in the response that creates them. */
import { type TSchema, Type } from '@sinclair/typebox'
import { Elysia, t } from 'elysia'
import { Changed, Key, MadeKey, toKeyDocument } from '../documents/key.ts'
import { PERIODS } from '../domain/limits.ts'
import { ServiceError } from '../domain/service-error.ts'
import { toMs } from '../domain/time.ts'
import { readNames } from '../identity/admins.ts'
import { createOwnKeys, requireMember } from '../identity/own-keys.ts'
import type { Principal } from '../identity/principal.ts'
import { toChanges } from '../keys/changes.ts'
import { type Body, columnOf, type FieldsOf, type InputField, KEY_FIELDS, type KeyChanges } from '../keys/definition.ts'
import {
  type CreatedKey,
  createKey,
  DEFAULT_OVERLAP_MS,
  editKey,
  endOverlap,
  type KeyOptions,
  type ListedKey,
  listAllKeys,
  listKeys,
  OVERLAP_MS,
  revokeKey,
  rotateKey,
  showKey,
} from '../keys/service.ts'
import { toFirstSpendStatus } from '../keys/spend-status.ts'
import type { Actor, KeyStore } from '../store/config-store.ts'
import { access, type Least, type Route } from './access.ts'
import { actors, inForce } from './changes.ts'
import type { AdminDeps, Asker } from './deps.ts'
import { exactly, oneOf, orNone } from './schema.ts'
import { Warnings, warningsOf } from './warnings.ts'

/** Body schemas by kind of field; the services validate values. */
const Texts = Type.Array(Type.String())

const SCHEMAS: Readonly<Record<Exclude<InputField<unknown>['kind'], 'budget' | 'choice'>, TSchema>> = {
  ...{ text: Type.String(), patterns: Texts, ranges: Texts, scope: oneOf(['all', 'local']), team: Type.String() },
  ...{ count: Type.Integer(), time: Type.Integer(), switch: Type.Boolean() },
  metadata: Type.Record(Type.String(), Type.Union([Type.String(), Type.Null()])),
}

/** Bodies to create and edit. @param isOwn true for members, who have fewer fields */
export const toBodies = <Changes extends { name?: string }>(fields: FieldsOf<Changes>, isOwn = false) => ({
  Made: toBody<Body<Changes> & { name: string }>(fields, ['name'], isOwn),
  Patch: toBody<Body<Changes>>(fields, [], isOwn),
})

type Described = Pick<InputField<string>, 'kind' | 'choices' | 'says' | 'none' | 'isForEditors'>

/** @param needed required fields */
export function toBody<Told>(fields: Readonly<Record<string, Described>>, needed: readonly string[], isOwn = false) {
  const properties = Object.entries(fields)
    .filter(([, { isForEditors }]) => !(isOwn && isForEditors))
    .flatMap(([name, field]) => toProperties(name, field, needed.includes(name)))
  return Type.Unsafe<Told>(exactly(Object.fromEntries(properties)))
}

function toProperties(name: string, field: Described, isNeeded: boolean): [column: string, schema: TSchema][] {
  const { kind, choices = {}, says, none } = field
  if (kind !== 'budget') {
    const plain = kind === 'choice' ? oneOf(Object.keys(choices)) : SCHEMAS[kind]
    const schema = isNeeded ? plain : Type.Optional(plain)
    return [[columnOf(name), none === null ? orNone(plain, says) : { ...schema, description: says }]]
  }
  const description = 'When the budget resets (UTC); `total`: never.'
  return [
    ['budget_nano_usd', orNone(Type.Integer(), says)],
    ['budget_period', Type.Optional(oneOf(PERIODS, { description }))],
  ]
}

const RotateBody = exactly({
  overlap: Type.Optional(
    Type.String({
      description: 'How long the old secret keeps working, such as `24h`, `7d`, or `0`. Default: `24h`.',
    }),
  ),
})

const ListQuery = t.Object(
  { hidden: t.Optional(t.Boolean({ description: 'True: include playground keys.' })) },
  { additionalProperties: false },
)

/** Who the routes are for, and which keys they cover. */
interface Whose {
  name: string
  read: Least
  change: Least
  isOwn: boolean
  of(principal: Principal): {
    store: KeyStore
    create(options: KeyOptions, by: Actor): Promise<CreatedKey>
    /** Names of possible owners by ID. */
    readNames(): Promise<ReadonlyMap<string, string>>
  }
}

/** A route's rule for a member's own keys. */
export const toOwn = (route: Omit<Route, 'least'>): Route => ({
  ...route,
  least: 'member',
  description: [route.description, "Only for the member's own keys."].filter(Boolean).join(' '),
  errors: [...(route.errors ?? []), 'no_team'],
})

function keyRoutes(deps: AdminDeps, { name, read, change, isOwn, of }: Whose) {
  const { reports, serving, now } = deps
  const by = actors(deps)
  const { Made, Patch } = toBodies<KeyChanges>(KEY_FIELDS, isOwn)
  /** @param own errors that only members get */
  const say = (least: Least, route: Omit<Route, 'least'>, own: Route['errors'] = []): Route =>
    isOwn ? toOwn({ ...route, errors: [...(route.errors ?? []), ...own] }) : { ...route, least }
  const tell = async (asker: Asker, principal: Principal, key: ListedKey) =>
    toKeyDocument(key, (await reports.spendStatuses(asker, 'key', key.id))(key), await of(principal).readNames())

  return new Elysia({ name })
    .use(access())
    .onAfterHandle(inForce({ serving }))
    .get(
      '/keys',
      async ({ asker, principal, query: { hidden = false } }) => {
        const { store, readNames } = of(principal)
        const [keys, statusOf, names] = await Promise.all([
          hidden ? listAllKeys(store, now()) : listKeys(store, now()),
          reports.spendStatuses(asker, 'key'),
          readNames(),
        ])
        return { keys: keys.map((key) => toKeyDocument(key, statusOf(key), names)) }
      },
      {
        route: say(read, {
          summary: 'List keys with their spend, including revoked and expired ones',
          answer: Type.Object({ keys: Type.Array(Key) }),
        }),
        query: ListQuery,
      },
    )
    .post(
      '/keys',
      async ({ principal, asker, body }) => {
        const { create, readNames } = of(principal)
        const { key, secret } = await create({ ...toChanges(body), name: body.name }, by(principal))
        const document = toKeyDocument(key, toFirstSpendStatus(key, now()), await readNames())
        const warnings = await warningsOf(deps, asker, document, { teamId: key.teamId, isOwn })
        return { ...document, key: secret, warnings }
      },
      {
        route: say(
          change,
          {
            summary: 'Create a key. The secret is returned only once',
            answer: Type.Object({ ...MadeKey.properties, warnings: Warnings }),
            errors: ['key_exists', 'team_not_found', 'team_ambiguous'],
          },
          ['too_many_keys'],
        ),
        body: Made,
      },
    )
    .get(
      '/keys/:id',
      async ({ asker, principal, params: { id } }) =>
        tell(asker, principal, await showKey(of(principal).store, id, now())),
      {
        route: say(read, {
          summary: 'Get a key',
          description: 'By ID (or at least six digits of it), name, or the last four characters of the secret.',
          answer: Key,
          errors: ['key_not_found', 'key_ambiguous'],
        }),
      },
    )
    .patch(
      '/keys/:id',
      async ({ request, principal, asker, params: { id }, body }) => {
        const { key, difference } = await editKey(of(principal).store, id, toChanges(body), by(principal, request))
        const changed = Object.keys(difference?.after ?? {})
        const document = await tell(asker, principal, key)
        const warnings = await warningsOf(deps, asker, document, { teamId: key.teamId, isOwn, changed })
        return { ...document, changed, warnings }
      },
      {
        route: say(
          change,
          {
            edits: true,
            summary: 'Edit a key. Absent fields and recorded spend do not change',
            description: 'Members can lower limits set by an administrator (`ceilings`), but not raise or remove them.',
            answer: Type.Object({ ...Key.properties, changed: Changed, warnings: Warnings }),
            errors: [
              ...(['key_not_found', 'key_ambiguous', 'key_exists', 'key_revoked', 'key_hidden'] as const),
              ...(['team_not_found', 'team_ambiguous'] as const),
            ],
          },
          ['too_many_keys', 'above_ceiling'],
        ),
        body: Patch,
      },
    )
    .post(
      '/keys/:id/rotate',
      async ({ request, principal, asker, params: { id }, body: { overlap } }) => {
        const { key, secret } = await rotateKey(of(principal).store, id, toOverlapMs(overlap), by(principal, request))
        return { ...(await tell(asker, principal, key)), key: secret }
      },
      {
        route: say(change, {
          edits: true,
          summary: 'Rotate a key. The old secret expires after the overlap',
          answer: MadeKey,
          errors: ['key_not_found', 'key_ambiguous', 'key_revoked', 'key_expired', 'key_hidden'],
        }),
        body: RotateBody,
      },
    )
    .post(
      '/keys/:id/end-overlap',
      async ({ request, principal, asker, params: { id } }) =>
        tell(asker, principal, (await endOverlap(of(principal).store, id, by(principal, request))).key),
      {
        route: say(change, {
          edits: true,
          summary: 'End the old secrets of a rotated key now. The newest one keeps working',
          answer: Key,
          errors: ['key_not_found', 'key_ambiguous', 'key_revoked', 'key_hidden'],
        }),
      },
    )
    .post(
      '/keys/:id/revoke',
      async ({ principal, asker, params: { id } }) =>
        tell(asker, principal, (await revokeKey(of(principal).store, id, by(principal))).key),
      {
        route: say(change, {
          summary: 'Revoke a key permanently',
          answer: Key,
          errors: ['key_not_found', 'key_ambiguous', 'key_hidden'],
        }),
      },
    )
}

function toOverlapMs(text: string | undefined): number {
  const ms = text === undefined ? DEFAULT_OVERLAP_MS : toMs(text, OVERLAP_MS)
  if (ms !== null) return ms
  throw new ServiceError({ kind: 'invalid', field: 'overlap' }, 'The overlap must be a duration such as 24h, 7d, or 0.')
}

export function keysController(deps: AdminDeps) {
  const { store, identity } = deps
  const all = {
    store,
    create: (options: KeyOptions, by: Actor) => createKey(store, options, by),
    readNames: () => readNames(identity),
  }
  return keyRoutes(deps, { name: 'keys', read: 'viewer', change: 'editor', isOwn: false, of: () => all })
}

export const ownKeysController = (deps: AdminDeps) =>
  keyRoutes(deps, {
    ...{ name: 'own-keys', read: 'member', change: 'member', isOwn: true },
    of: (principal) => {
      const own = createOwnKeys(deps.store, deps.identity, requireMember(principal))
      return { store: own, create: own.create, readNames: async () => new Map([[principal.id, principal.name]]) }
    },
  })
