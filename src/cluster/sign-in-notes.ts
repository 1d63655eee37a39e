/** Pending sign-ins in PostgreSQL, because a sign-in may begin at one node and end at another. */
import { MAX_NOTES, type SignInNoteKind, type SignInNotes } from '../domain/sign-in-notes.ts'
import type { Postgres } from '../store/postgres/client.ts'
import { createSignInQuery } from './sign-in-query.ts'

const DISPLACE = `
  with old as (
    delete from tollgate.sign_in_notes where kind = $1 and name <> $4 and (ends_ms <= $2::int8 or name in (
      select name from tollgate.sign_in_notes where kind = $1 and network = $3 order by ends_ms desc offset ${MAX_NOTES.network - 1}
    ) or name in (
      select name from tollgate.sign_in_notes where kind = $1 order by ends_ms desc offset ${MAX_NOTES.all - 1}
    ))
  )
  insert into tollgate.sign_in_notes (kind, name, network, text, ends_ms) values ($1, $4, $3, $5, $6::int8)
  on conflict (kind, name) do update set network = excluded.network, text = excluded.text, ends_ms = excluded.ends_ms`

export function createSharedNotes(postgres: Pick<Postgres, 'query'>, kind: SignInNoteKind): SignInNotes {
  const query = createSignInQuery(postgres)
  return {
    async put({ name, network, text, endsMs }, nowMs) {
      await query(DISPLACE, [kind, nowMs, network, name, text, endsMs])
    },
    async find(name, nowMs) {
      const [found] = await query<{ text: string }>(
        'select text from tollgate.sign_in_notes where kind = $1 and name = $2 and ends_ms > $3::int8',
        [kind, name, nowMs],
      )
      return found?.text ?? null
    },
    async remove(name) {
      const gone = await query('delete from tollgate.sign_in_notes where kind = $1 and name = $2 returning 1 as gone', [
        kind,
        name,
      ])
      return gone.length > 0
    },
  }
}
