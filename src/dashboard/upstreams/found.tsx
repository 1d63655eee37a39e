/** What the machine of the server has that is no upstream yet, for owners: model servers that answer, added by one press, and providers. */
import { useState } from 'preact/hooks'
import type { ShownFoundServer } from '../../documents/upstream.ts'
import { toRefusal } from '../api/loaded.ts'
import type { Refusal } from '../api/refusal.ts'
import { Button } from '../ui/button.tsx'
import { Copyable } from '../ui/copy.tsx'
import { State } from '../ui/figure.tsx'
import { Problem, tell } from '../ui/notice.tsx'
import { Unread } from '../ui/unread.tsx'
import { addFound, useFound } from './data.ts'
import { toAddCommand, toAddedText, toNewServers } from './words.ts'

export function FoundHere() {
  const { data: found, problem, reload } = useFound()
  const servers = toNewServers(found?.servers ?? [])
  const providers = found?.providers ?? []
  return (
    <section class="part found">
      <h2>Found on this machine</h2>
      <Unread of={found} problem={problem} retry={reload}>
        <span class="room-of-words" />
      </Unread>
      {found !== null && servers.length + providers.length === 0 && (
        <p class="dim">
          Nothing more: no other model server answers at its usual port, and no variable of another provider is set.
        </p>
      )}
      <ul class="lines">
        {servers.map((server) => (
          <Server key={server.base_url} of={server} />
        ))}
        {providers.map(({ preset, name, variable }) => (
          <li key={preset}>
            <span>
              {name} <code class="dim">{variable}</code>
            </span>
            <State kind="off">found</State>
            <Copyable text={toAddCommand(preset)} />
          </li>
        ))}
      </ul>
      {providers.length > 0 && (
        <p class="hint">
          A provider costs money, and its variable is the server's: it is added by the command, on that machine.
        </p>
      )}
      {found !== null && (
        <div>
          <Button onClick={reload}>Look again</Button>
        </div>
      )}
    </section>
  )
}

function Server({ of: server }: { of: ShownFoundServer }) {
  const [isBusy, setBusy] = useState(false)
  const [refusal, setRefusal] = useState<Refusal | null>(null)
  const add = async () => {
    if (isBusy) return
    setBusy(true)
    setRefusal(null)
    try {
      tell(toAddedText(server.id, await addFound(server)))
    } catch (error) {
      setRefusal(toRefusal(error))
    }
    setBusy(false)
  }
  return (
    <li>
      <span>
        {server.name} <code class="dim">{server.base_url}</code>
      </span>
      <State kind="off">found</State>
      <Button icon="plus" onClick={add} aria-disabled={isBusy}>
        Add {server.id}
      </Button>
      {refusal && <Problem of={refusal} />}
    </li>
  )
}
