/** Failed sign-ins in PostgreSQL, so that several nodes don't allow more attempts than one. */
import { FAILURE_WINDOW_MS, type FailureSubject, type SignInFailures } from '../domain/sign-in-failures.ts'
import type { Postgres } from '../store/postgres/client.ts'
import { createSignInQuery } from './sign-in-query.ts'

const BEGIN = `select tollgate.sign_in_begin(
  array(select json_array_elements_text($1::text::json)),
  array(select json_array_elements_text($2::text::json)::int4), $3::int8, ${FAILURE_WINDOW_MS}, $4::text::boolean) as wait`
/** Deletes one failure per name. */
const TAKE_BACK = `delete from tollgate.sign_in_failures where ctid in (
  select distinct on (name) ctid from tollgate.sign_in_failures
  where at_ms = $2::int8 and name in (select json_array_elements_text($1::text::json)))`

export function createSharedFailures(postgres: Pick<Postgres, 'query'>): SignInFailures {
  const query = createSignInQuery(postgres)
  const ask = async (subjects: readonly FailureSubject[], nowMs: number, counts: boolean): Promise<number> => {
    const names = JSON.stringify(subjects.map(({ name }) => toHash(name)))
    const most = JSON.stringify(subjects.map(({ most }) => most))
    const [row] = await query<{ wait: number }>(BEGIN, [names, most, nowMs, String(counts)])
    return row?.wait ?? 0
  }
  return {
    begin: (subjects, nowMs) => ask(subjects, nowMs, true),
    waitMs: (subjects, nowMs) => ask(subjects, nowMs, false),
    async takeBack(subjects, atMs) {
      // If this fails, the sign-in counts as failed.
      await query(TAKE_BACK, [JSON.stringify(subjects.map(({ name }) => toHash(name))), atMs]).catch(() => {})
    },
    async reset(name) {
      await query('delete from tollgate.sign_in_failures where name = $1', [toHash(name)]).catch(() => {})
    },
  }
}

const toHash = (name: string) => Bun.SHA256.hash(name, 'hex')
