/** A secret, which is shown this once: to be copied, with what to do with it, and the first request that comes with it. */
import { useEffect, useState } from 'preact/hooks'
import { Code, Secret, ShownOnce } from '../ui/controls.tsx'
import { When } from '../ui/figure.tsx'
import { announce } from '../ui/notice.tsx'
import { Tabs } from '../ui/tabs.tsx'
import { findModel, useKey } from './data.ts'
import { toSnippets } from './snippets.ts'

interface MadeProps {
  id: string
  secret: string
  /** Its last use before the secret was made. */
  lastUsedMs: number | null
}

export function Made({ id, secret, lastUsedMs }: MadeProps) {
  const [model, setModel] = useState<string | null>(null)
  useEffect(() => {
    void findModel(secret).then(setModel)
  }, [secret])
  const access = { baseUrl: `${location.origin}/v1`, secret, model: model ?? 'MODEL' }
  const tabs = toSnippets(access).map(({ title, text }) => ({ title, content: <Code text={text} label={title} /> }))
  return (
    <div class="made">
      <Secret text={secret} label="Copy the key" />
      <ShownOnce />
      <FirstRequest id={id} lastUsedMs={lastUsedMs} />
      <h2>Use it</h2>
      <Tabs label="Clients" tabs={tabs} />
      {model === null && <p class="hint">Put the name of a model in the place of MODEL.</p>}
    </div>
  )
}

const LOOK_MS = 2_000

function FirstRequest({ id, lastUsedMs }: Pick<MadeProps, 'id' | 'lastUsedMs'>) {
  const key = useKey(id, LOOK_MS).data
  const isUsed = key !== null && key.last_used_ms !== null && key.last_used_ms !== lastUsedMs
  useEffect(() => {
    if (isUsed) announce('The first request has come.')
  }, [isUsed])
  if (!isUsed || key.last_used_ms === null) {
    return (
      <p class="first-request" data-state="waiting">
        <span class="pulse" aria-hidden="true" />
        No request yet: the first one shows up here by itself.
      </p>
    )
  }
  return (
    <p class="first-request" data-state="came">
      <span class="state good">The first request has come</span>
      <span>
        for <code>{key.last_model}</code>, <When ms={key.last_used_ms} />
      </span>
    </p>
  )
}
