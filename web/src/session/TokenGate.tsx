// Asks for a token, which stays in this tab only.
import { useState, type JSX } from "react";

import { useStore } from "../live/store";
import { Note } from "../ui/Note";
import { Page } from "../ui/Page";
import { session, token } from "./token";

export function TokenGate(): JSX.Element {
  const wasRefused = useStore(session, (value) => value.value !== null);
  const [text, setText] = useState("");
  return (
    <Page title="A token, please">
      <form
        className="card stack"
        onSubmit={(event) => {
          event.preventDefault();
          token.keep(text.trim());
        }}
      >
        {wasRefused && (
          <Note tone="failure" title="The service refused this token" isAlert>
            <p>It may be misspelt, expired or revoked.</p>
          </Note>
        )}
        <label className="stack tight">
          Token
          <input
            type="password"
            autoComplete="off"
            spellCheck={false}
            required
            value={text}
            onChange={(event) => setText(event.target.value)}
          />
        </label>
        <p className="small muted">
          It is kept in this tab until you close it, and sent with each request. An admin makes one with{" "}
          <code>vigil token create NAME --role viewer</code>.
        </p>
        <p>
          <button type="submit" className="primary">
            Enter
          </button>
        </p>
      </form>
    </Page>
  );
}
