/** Those who may sign in: `/admin/api/admins`. A code to set a password with is in one answer, that of its making. */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { toAdminDocument, toAdminDocuments } from '../documents/admin.ts'
import { ROLES } from '../domain/roles.ts'
import { type CodedAdmin, editAdmin, inviteAdmin, inviteAgain } from '../identity/admins.ts'
import { access } from './access.ts'
import { actors } from './actor.ts'
import type { AdminDeps } from './deps.ts'
import { inForce } from './in-force.ts'
import { exactly, oneOf, orNone } from './schema.ts'

const AdminFields = {
  role: Type.Optional(oneOf(ROLES)),
  /** Of a member: id or name. */
  team: orNone(Type.String()),
}
const AdminBody = exactly({ ...AdminFields, name: Type.String(), role: oneOf(ROLES) })
const AdminPatch = exactly({ ...AdminFields, disabled: Type.Optional(Type.Boolean()) })

export function adminsController(deps: AdminDeps) {
  const { identity, ways, serving } = deps
  const by = actors(deps)

  return new Elysia({ name: 'admins' })
    .use(access())
    .onAfterHandle(inForce({ serving }))
    .get(
      '/admins',
      async () => ({ admins: toAdminDocuments(await identity.readAdmins(), await identity.countPasskeys()) }),
      { least: 'owner' },
    )
    .post('/admins', async ({ principal, body }) => toCodedDocument(await inviteAdmin(identity, body, by(principal))), {
      least: 'owner',
      body: AdminBody,
    })
    .patch(
      '/admins/:id',
      async ({ request, principal, params: { id }, body }) => {
        const { admin, revoked, moved } = await editAdmin(identity, id, body, by(principal, request), ways)
        const passkeys = (await identity.countPasskeys()).get(admin.id) ?? 0
        return { ...toAdminDocument(admin, passkeys), keys_revoked: revoked.length, keys_moved: moved.length }
      },
      { least: 'owner', body: AdminPatch },
    )
    .post(
      '/admins/:id/invite',
      async ({ principal, params: { id } }) => toCodedDocument(await inviteAgain(identity, id, by(principal))),
      { least: 'owner' },
    )
}

/** Whoever has a code has no passkeys: a reset removes them. */
const toCodedDocument = ({ admin, code }: CodedAdmin) => ({
  ...toAdminDocument(admin, 0),
  code,
  code_expires_ms: admin.codeExpiresMs,
})
