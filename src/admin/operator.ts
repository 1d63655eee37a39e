/**
 * What nobody may do over the network: `/operator`, for the commands of whoever owns the data folder. An instance of its own, which
 * only their requests reach.
 */
import { Elysia } from 'elysia'
import { toCodedDocument } from '../documents/people.ts'
import { resetAdmin } from '../identity/admins.ts'
import { OPERATOR } from './access.ts'
import type { AdminDeps } from './deps.ts'

const OPERATOR_PATH = '/operator'

export const operatorController = ({ identity, rotateSecret, now }: AdminDeps) =>
  new Elysia({ prefix: OPERATOR_PATH, normalize: false })
    .post('/admins/:id/reset', async ({ params: { id } }) =>
      toCodedDocument(await resetAdmin(identity, id, { actor: OPERATOR.id, nowMs: now() })),
    )
    .post('/secret/rotate', () => rotateSecret({ actor: OPERATOR.id, nowMs: now() }))

export type OperatorApi = ReturnType<typeof operatorController>
