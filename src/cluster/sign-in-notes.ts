/** Notes of sign-ins in PostgreSQL: a sign-in that begins at one node may end at another. */
import { ServiceError } from '../domain/service-error.ts'
import { MAX_NOTES, type SignInNoteKind, type SignInNotes } from '../domain/sign-in-notes.ts'
import { type Postgres, PostgresRefusal } from '../store/postgres/client.ts'

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
  const query = async <Row>(text: string, values: readonly unknown[]): Promise<Row[]> => {
    try {
      return await postgres.query<Row>(text, values)
    } catch (error) {
      if (!(error instanceof PostgresRefusal)) throw error
      throw new ServiceError(
        { kind: 'cluster_unreachable', isInDoubt: false },
        `Signing in needs the cluster's PostgreSQL, which can't be used: ${error.message} Try again once it is back.`,
      )
    }
  }
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
