/** Tokens, for owners: with one, a script uses the admin API. */
import { query, setQuery, toHref, toHrefWith } from '../address/address.ts'
import { ButtonLink } from '../ui/button.tsx'
import { Code } from '../ui/copy.tsx'
import { nowMs, State, When } from '../ui/figure.tsx'
import { Empty } from '../ui/notice.tsx'
import { type Column, Table } from '../ui/table.tsx'
import { RowsRoom, Unread } from '../ui/unread.tsx'
import { type Token, useTokens } from './data.ts'
import { SettingsFrame } from './frame.tsx'
import { TokenDialog } from './token-dialog.tsx'

const newToken = () => (
  <ButtonLink kind="main" icon="plus" href={toHref('/settings/tokens/new')} data-new>
    New token
  </ButtonLink>
)

export function TokensPage() {
  const { data: tokens, problem, reload } = useTokens()
  const open = tokens?.find(({ id }) => id === query.value.get('token'))
  return (
    <SettingsFrame title="Tokens" actions={tokens !== null && tokens.length > 0 && newToken()}>
      <Unread of={tokens} problem={problem} retry={reload}>
        <RowsRoom />
      </Unread>
      {tokens !== null &&
        (tokens.length === 0 ? (
          <NoTokens />
        ) : (
          <Table caption="Tokens" columns={COLUMNS} rows={tokens} idOf={({ id }) => id} />
        ))}
      {open && <TokenDialog key={open.id} of={open} onClose={() => setQuery({ token: null })} />}
    </SettingsFrame>
  )
}

const NoTokens = () => (
  <Empty title="No tokens yet">
    <p>
      A script does with a token what these pages do: it makes keys, reads usage, changes models. It can make neither
      tokens nor people. To ask models, it needs a key. What it can ask is in the{' '}
      <a href={toHref('/reference?document=admin')}>API reference</a>.
    </p>
    {newToken()}
    <p class="dim">Or on the command line:</p>
    <Code label="Command that makes a token" text="tollgate admin token create grafana" />
  </Empty>
)

export function TokenState({ of: { revoked_ms, expires_ms } }: { of: Token }) {
  if (revoked_ms !== null) return <State kind="off">revoked</State>
  if (expires_ms !== null && expires_ms <= nowMs.value) return <State kind="off">expired</State>
  return <State kind="good">active</State>
}

export const SCOPE_WORDS = { read: 'reads', write: 'reads and changes' } as const

const COLUMNS: readonly Column<Token>[] = [
  {
    name: 'name',
    title: 'Name',
    sortBy: ({ name }) => name,
    cell: ({ id, name, token }) => (
      <>
        <a class="row-link" href={toHrefWith({ token: id })}>
          {name}
        </a>{' '}
        <span class="dim not-on-phone">…{token.slice(-4)}</span>
      </>
    ),
  },
  { name: 'state', title: 'State', cell: (token) => <TokenState of={token} /> },
  { name: 'scope', title: 'May', sortBy: ({ scope }) => scope, cell: ({ scope }) => SCOPE_WORDS[scope] },
  {
    name: 'ends',
    title: 'Ends',
    isFigure: true,
    sortBy: ({ expires_ms }) => expires_ms ?? Number.MAX_SAFE_INTEGER,
    cell: ({ expires_ms }) => (expires_ms === null ? <span class="dim">never</span> : <When ms={expires_ms} />),
  },
  {
    name: 'made',
    title: 'Made',
    isFigure: true,
    isOnPhone: false,
    sortBy: ({ created_ms }) => created_ms,
    cell: ({ created_ms }) => <When ms={created_ms} />,
  },
]
